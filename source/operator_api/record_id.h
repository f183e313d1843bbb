#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "source/protocol/record.h"

namespace idempotency::operator_api {

// An identity as one segment of a URL's path: base64url of its three names, each behind its length
// in two bytes. Survives any bytes. Equal identities have equal ids.
std::string recordId(const protocol::Identity& identity);

// None: no identity has this id.
[[nodiscard]] std::optional<protocol::Identity> parseRecordId(std::string_view id);

}  // namespace idempotency::operator_api
