#pragma once

#include <string>
#include <string_view>

#include <absl/status/statusor.h>

#include "source/operator_api/encode.h"
#include "source/store/operator_store.h"

// What encode.h writes, for clients of the API. Unknown members are ignored: a newer server may
// send more. Names that are no UTF-8 come back with U+FFFD in them, but identities, which come from
// the record's id, are exact.
namespace idempotency::operator_api {

[[nodiscard]] absl::StatusOr<store::RecordPage> decodeRecords(std::string_view json);

struct RecordDetail {
  store::ListedRecord record;
  store::AuditPage timeline;
};
[[nodiscard]] absl::StatusOr<RecordDetail> decodeRecord(std::string_view json);

[[nodiscard]] absl::StatusOr<store::AuditPage> decodeAudit(std::string_view json);

struct ServerSummary {
  store::Summary summary;
  ServerFacts facts;
};
[[nodiscard]] absl::StatusOr<ServerSummary> decodeSummary(std::string_view json);

// Of a change, whatever its outcome: the answer with status 200, 404 or 409.
[[nodiscard]] absl::StatusOr<store::ChangeResult> decodeChange(int status, std::string_view json);

[[nodiscard]] absl::StatusOr<store::PurgeResult> decodePurge(std::string_view json);

// What an answer says instead of a result. RFC 9457 lets a server leave out any of these.
struct ServerProblem {
  std::string code;
  std::string title;
  std::string detail;
};
[[nodiscard]] absl::StatusOr<ServerProblem> decodeProblem(std::string_view json);

}  // namespace idempotency::operator_api
