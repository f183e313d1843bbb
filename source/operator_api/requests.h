#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

#include "source/protocol/record.h"
#include "source/store/operator_store.h"

// What clients ask for: bodies and query strings, in both directions. Bodies are strict: a
// misspelled dry_run must not change anything. An error says in words what is wrong.
namespace idempotency::operator_api {

// The last segment of the path of a change.
enum class ChangeKind : uint8_t { Resolve, AskAgain, Release, Bust };
std::string_view pathSegment(ChangeKind kind);
[[nodiscard]] std::optional<ChangeKind> parseChangeKind(std::string_view segment);
// None: only the reconciler does this.
[[nodiscard]] std::optional<ChangeKind> changeKind(const store::OperatorAction& action);

inline constexpr size_t MaxReasonBytes = 1000;

// The actor and the record are not in the body: the caller sets them.
[[nodiscard]] absl::StatusOr<store::OperatorChange> parseChange(ChangeKind kind,
                                                                std::string_view body);
std::string encodeChangeRequest(const store::OperatorChange& change);

// What a webhook says became of a record.
struct WebhookEvent {
  std::optional<protocol::Identity> identity;
  std::optional<protocol::Attempt> attempt;  // At least one of the two is set.
  store::OperatorAction action;              // Completed or NotRun.
  std::string reason;
};
// NotRun needs the attempt: an event that arrives late must not free the key of a later attempt.
[[nodiscard]] absl::StatusOr<WebhookEvent> parseWebhookEvent(std::string_view body);

struct PurgeRequest {
  store::Purge purge;  // Without the actor.
  uint32_t limit = 0;
};
inline constexpr uint32_t DefaultPurgeLimit = 1000;
inline constexpr uint32_t MaxPurgeLimit = 10'000;
[[nodiscard]] absl::StatusOr<PurgeRequest> parsePurge(std::string_view body);
std::string encodePurgeRequest(const PurgeRequest& request);

inline constexpr uint32_t DefaultPageLimit = 50;
inline constexpr uint32_t MaxPageLimit = 500;

struct RecordQuery {
  store::RecordFilter filter;
  std::optional<protocol::Identity> after;
  uint32_t limit = DefaultPageLimit;
};
// The part of a path behind the question mark.
[[nodiscard]] absl::StatusOr<RecordQuery> parseRecordQuery(std::string_view query);
std::string encodeRecordQuery(const RecordQuery& query);

struct AuditQuery {
  store::AuditFilter filter;
  std::optional<int64_t> before;
  uint32_t limit = DefaultPageLimit;
};
[[nodiscard]] absl::StatusOr<AuditQuery> parseAuditQuery(std::string_view query);
std::string encodeAuditQuery(const AuditQuery& query);

}  // namespace idempotency::operator_api
