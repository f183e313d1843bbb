#pragma once

#include "source/config/field_errors.h"
#include "source/protocol/settings.h"

namespace idempotency::v1 {
class Store;
}

namespace idempotency::config {

// Checks the field `store` of a filter's config.
protocol::StoreSettings readStore(const v1::Store& message, FieldErrors& errors);

}  // namespace idempotency::config
