#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "source/protocol/record.h"

// Where a page ended. Opaque to clients: only the API that made a cursor reads it.
namespace idempotency::operator_api {

std::string recordCursor(const protocol::Identity& last);
[[nodiscard]] std::optional<protocol::Identity> parseRecordCursor(std::string_view cursor);

std::string auditCursor(int64_t last);
[[nodiscard]] std::optional<int64_t> parseAuditCursor(std::string_view cursor);

}  // namespace idempotency::operator_api
