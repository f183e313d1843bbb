#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "source/protocol/record.h"
#include "source/store/record.h"
#include "test/fuzz/filter/plans.h"
#include "test/fuzz/filter/requests.h"
#include "test/fuzz/filter/truth.h"
#include "test/host/execution_log.h"
#include "test/support/fake_envoy.h"
#include "test/support/fake_store.h"

namespace idempotency::fuzz {

// Something does not hold: says what, and ends the program.
[[noreturn]] void violated(const std::string& what);

// Who asks for a claim.
struct Claimant {
  uint64_t exchange = 0;
  uint64_t came = 0;           // When, by Ledger::moment(),
  store::StoreTime came_at{};  // and by the store's clock.
  const RoutePlan* route = nullptr;
  protocol::Identity identity;
  RequestText request;
};

// Compares all that records say with all that happened, and knows what clients may get. It sees
// the upstreams and the database, never the filter's mind.
class Ledger {
public:
  explicit Ledger(const test::FakeDatabase& database);

  // --- Claims
  // Whose hook runs now; null: nobody's. Attempts that are made meanwhile are his.
  const Claimant* actsFor(const Claimant* who);
  void onAttempt(protocol::Attempt attempt);
  // The request goes on under this attempt: to the upstream, or after a redirect to another one.
  // The one that sent it on has run it.
  void begins(protocol::Attempt attempt, uint64_t exchange);
  void goesOn(protocol::Attempt attempt, uint64_t exchange);
  void ends(protocol::Attempt attempt, Truth truth,
            std::optional<WholeAnswer> answer = std::nullopt);

  // --- Records
  // After each step of a store and each move of its clock, so that no change is missed.
  void look();
  // The number of looks so far: an order of all that happened.
  uint64_t moment() const { return looks_; }
  // The store's clock went without the process's: a claim may be lost that is believed alive.
  void clockJumped() { jumped_ = true; }
  bool jumped() const { return jumped_; }

  // --- What clients get
  // A replay must be of what is stored for this request, in the life of its record.
  void checkReplay(const Claimant& who, const fake::Reply& reply);
  // Whether the record, as it was at some time since the request came, is a reason to refuse it so.
  bool hasReason(const Claimant& who, protocol::Problem problem) const;
  // The attempt's own ending is durable, though others may have written it.
  bool isSettled(protocol::Attempt attempt) const;
  bool isPastLife(protocol::Attempt attempt) const {
    return runs_.at(attempt).expires_at <= database_.now();
  }
  // Others took the record away from it.
  bool isLost(protocol::Attempt attempt) const { return runs_.at(attempt).lost; }

  // --- The end
  // Whoever runs has a lease that is alive.
  void checkLeases() const;
  // Whether any record is claimed.
  bool hasClaim() const;
  // Whether somebody ever asked for this key.
  bool wasAsked(size_t key) const;
  // Whether the next request with this key may run: nothing did, or it left no result.
  bool isFree(size_t key) const;
  uint64_t executions() const { return log_.executions(); }

private:
  struct Run {
    Claimant who;
    bool claimed = false;  // Durably.
    bool over = false;     // The record is this attempt's no more, or not in progress.
    bool settled = false;
    bool lost = false;
    bool sent_on = false;  // By a redirect: whatever comes now, an upstream has run it.
    Truth truth = Truth::NotBegun;
    std::optional<WholeAnswer> answer;
    uint64_t life = 0;
    uint64_t execution = 0;
    store::StoreTime expires_at{};
  };
  struct History {
    std::optional<store::Record> seen;
    uint64_t life = 0;
    store::StoreTime life_ends{};
    std::vector<protocol::Attempt> claims;
    std::vector<protocol::Attempt> stored;  // Whose responses were stored.
    size_t replayed = 0;                    // The last of them that was replayed.
    // The last moment when the record was so.
    std::map<protocol::Attempt, uint64_t> held_by;
    uint64_t in_progress = Never;
    uint64_t unknown = Never;  // Or its lease had run out.
    uint64_t without_response = Never;
    uint64_t past_life = Never;
  };

  // Before the first look.
  static constexpr uint64_t Never = 0;

  std::optional<store::Record> find(const protocol::Identity& identity) const;
  void note(History& history, const store::Record& now) const;
  void compare(const protocol::Identity& identity, History& history,
               const std::optional<store::Record>& now);
  void onClaimed(History& history, const store::Record& now);
  void beginsTooLate(Run& run, uint64_t exchange);
  void checkReclaim(const Run& run, const store::Record& before);
  void onMoved(History& history, const store::Record& before, const store::Record* now);
  void onEnded(History& history, Run& run, bool lease_alive, const store::Record* now);
  void onSettledLate(History& history, Run& run, const store::Record& now);
  // A completion after the end of its life, or of an unknown outcome.
  void onRenewed(History& history, Run& run, const store::Record& now) const;
  void checkCompleted(History& history, Run& run, const store::Record& now);
  static Verdicts verdictsOf(const Run& run) { return verdicts(run.truth, run.answer); }
  void excuse(const Run& run) { excused_.insert(lifeName(run)); }
  static std::string lifeName(const Run& run);

  const test::FakeDatabase& database_;
  const Claimant* acting_ = nullptr;
  std::map<protocol::Attempt, Run> runs_;
  std::map<protocol::Identity, History> histories_;
  std::set<std::string> excused_;  // Lives in which a second run is what the policy says.
  test::ExecutionLog log_;
  uint64_t looks_ = 1;
  bool jumped_ = false;
};

}  // namespace idempotency::fuzz
