#pragma once

#include <vector>

#include "source/config/field_errors.h"
#include "source/protocol/settings.h"

namespace idempotency::v1 {
class FilterConfig;
}

namespace idempotency::config {

// Reads the entries of `reconcile`. What is wrong is added to `errors`.
[[nodiscard]] std::vector<protocol::ReconcileSettings> readReconcile(
    const v1::FilterConfig& message, FieldErrors& errors);

}  // namespace idempotency::config
