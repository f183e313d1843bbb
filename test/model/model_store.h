#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "source/protocol/decide.h"
#include "source/protocol/outcome.h"
#include "source/protocol/record.h"
#include "test/model/mutant.h"
#include "test/support/transitions.h"

namespace idempotency::model {

using Time = int64_t;
inline constexpr Time Lease = 10;
inline constexpr Time Ttl = 60;

// Whose response it is, so that a replay of another's is seen.
struct ModelResponse {
  protocol::Identity identity;
  int body = 0;  // What was asked; stands for the fingerprint.
  protocol::Attempt attempt = 0;
  int run = 0;  // Which execution gave it; each has its own number.
  int status = 0;
  bool operator==(const ModelResponse&) const = default;
};

struct ModelRecord {
  protocol::RecordState state = protocol::RecordState::InProgress;
  protocol::Attempt attempt = 0;
  int body = 0;
  Time lease_until = 0;
  Time expires_at = 0;
  protocol::LeaseExpired on_lease_expired = protocol::LeaseExpired::Unknown;
  std::optional<ModelResponse> response;
  int status = 0;
  bool reclaimed = false;  // An earlier attempt had the record.
  bool operator==(const ModelRecord&) const = default;
};

// A change of one record, for the checker.
struct Change {
  protocol::Identity identity;
  RecordEvent event;
  std::optional<ModelRecord> before;
  std::optional<ModelRecord> after;
  protocol::Attempt writer = 0;  // 0: not the write of an attempt.
};

// A store that fits on a page: every operation is one atomic step, and its clock is a number. What
// the real stores must do, without how.
class ModelStore {
public:
  explicit ModelStore(Mutant mutant) : mutant_(mutant) {}

  Time now = 0;

  // Claims what is absent, or by compare-and-set what `from` says. Gives the record that is in the
  // way.
  std::optional<ModelRecord> claim(const protocol::Identity& identity, int body,
                                   protocol::Attempt attempt,
                                   protocol::LeaseExpired on_lease_expired,
                                   const std::optional<protocol::Reclaim>& from);

  // A write of an attempt.
  void write(const protocol::Identity& identity, protocol::Attempt attempt,
             protocol::AttemptEnding ending, const std::optional<ModelResponse>& response,
             int status);
  void extend(const protocol::Identity& identity, protocol::Attempt attempt);

  // Maintenance.
  void sweep();
  void reap(bool soft);
  void resolveCompleted(const protocol::Identity& identity, const ModelResponse& response);
  void resolveFailed(const protocol::Identity& identity);

  const std::map<protocol::Identity, ModelRecord>& records() const { return records_; }

  // The changes since the last call.
  std::vector<Change> takeChanges();

private:
  protocol::Identity keyOf(const protocol::Identity& identity) const;
  bool mayReclaim(const ModelRecord& record, const protocol::Reclaim& from) const;
  void change(const protocol::Identity& identity, RecordEvent event,
              std::optional<ModelRecord> after, protocol::Attempt writer = 0);

  Mutant mutant_;
  std::map<protocol::Identity, ModelRecord> records_;
  std::vector<Change> changes_;
};

}  // namespace idempotency::model
