#include "source/operator_api/cursor.h"

#include <fmt/format.h>

#include "source/operator_api/base64.h"
#include "source/operator_api/record_id.h"
#include "source/operator_api/text.h"

namespace idempotency::operator_api {
namespace {

// One kind is refused where the other belongs.
constexpr char RecordMark = 'r';
constexpr char AuditMark = 'a';

}  // namespace

std::string recordCursor(const protocol::Identity& last) {
  return RecordMark + recordId(last);
}

std::optional<protocol::Identity> parseRecordCursor(std::string_view cursor) {
  return cursor.starts_with(RecordMark) ? parseRecordId(cursor.substr(1)) : std::nullopt;
}

std::string auditCursor(int64_t last) {
  return AuditMark + toBase64Url(fmt::format("{}", last));
}

std::optional<int64_t> parseAuditCursor(std::string_view cursor) {
  const auto digits =
      cursor.starts_with(AuditMark) ? fromBase64Url(cursor.substr(1)) : std::nullopt;
  return digits.has_value() ? parseNumber(*digits) : std::nullopt;
}

}  // namespace idempotency::operator_api
