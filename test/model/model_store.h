#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "source/protocol/decide.h"
#include "source/protocol/record.h"
#include "source/protocol/store_action.h"
#include "source/protocol/transitions.h"
#include "test/model/mutant.h"

namespace idempotency::model {

using Time = int64_t;
inline constexpr Time Lease = 10;
inline constexpr Time Ttl = 60;

// Whose response it is, so that a replay of another's is seen.
struct ModelResponse {
  Identity identity;
  int body = 0;  // What was asked; stands for the fingerprint.
  Attempt attempt = 0;
  int run = 0;  // Which execution gave it; each has its own number.
  int status = 0;
  bool operator==(const ModelResponse&) const = default;
};

struct ModelRecord {
  RecordState state = RecordState::InProgress;
  Attempt attempt = 0;
  int body = 0;
  Time lease_until = 0;
  Time expires_at = 0;
  LeaseExpired on_lease_expired = LeaseExpired::Unknown;
  std::optional<ModelResponse> response;
  int status = 0;
  bool reclaimed = false;  // An earlier attempt had the record.
  bool operator==(const ModelRecord&) const = default;
};

// A change of one record, for the checker.
struct Change {
  Identity identity;
  RecordEvent event;
  std::optional<ModelRecord> before;
  std::optional<ModelRecord> after;
  Attempt writer = 0;  // 0: not the write of an attempt.
};

// A store that fits on a page: every operation is one atomic step, and its clock is a number. What
// the real stores must do, without how.
class ModelStore {
public:
  explicit ModelStore(Mutant mutant) : mutant_(mutant) {}

  Time now = 0;

  // Claims what is absent, or by compare-and-set what `from` says. Gives the record that is in the
  // way.
  std::optional<ModelRecord> claim(const Identity& identity, int body, Attempt attempt,
                                   LeaseExpired on_lease_expired,
                                   const std::optional<Reclaim>& from);

  // A write of an attempt.
  void write(const Identity& identity, Attempt attempt, StoreAction action,
             const std::optional<ModelResponse>& response, int status);
  void extend(const Identity& identity, Attempt attempt);

  // Maintenance.
  void sweep();
  void reap(bool soft);
  void resolveCompleted(const Identity& identity, const ModelResponse& response);
  void resolveFailed(const Identity& identity);

  const std::map<Identity, ModelRecord>& records() const { return records_; }

  // The changes since the last call.
  std::vector<Change> takeChanges();

private:
  Identity keyOf(const Identity& identity) const;
  bool mayReclaim(const ModelRecord& record, const Reclaim& from) const;
  void change(const Identity& identity, RecordEvent event, std::optional<ModelRecord> after,
              Attempt writer = 0);

  Mutant mutant_;
  std::map<Identity, ModelRecord> records_;
  std::vector<Change> changes_;
};

}  // namespace idempotency::model
