#include "source/protocol/decide.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace idempotency::protocol {
namespace {

using namespace std::chrono_literals;

constexpr Attempt Other = 71;

Policy required() {
  Policy policy;
  policy.enforcement = Enforcement::Required;
  return policy;
}

template <typename Change>
Policy with(Change change) {
  Policy policy = required();
  change(policy);
  return policy;
}

// --- The request alone
// ------------------------------------------------------------------------------------

RequestFacts goodRequest() {
  return {.method = "POST", .tenant_known = true};
}

TEST(DecideRequestTest, GoodRequestAsksForAClaim) {
  EXPECT_EQ(decideRequest(required(), goodRequest()), RequestDecision(Claim{}));
}

TEST(DecideRequestTest, RouteThatDoesNotEnforcePassesEverything) {
  RequestFacts facts = goodRequest();
  facts.key_problem = key::KeyRefusal{key::KeyProblem::Malformed};
  facts.tenant_known = false;
  facts.body_too_large = true;
  EXPECT_EQ(decideRequest(Policy{}, facts), RequestDecision(Pass{PassReason::Uncovered}));
}

TEST(DecideRequestTest, MethodThatIsNotCoveredPasses) {
  RequestFacts facts = goodRequest();
  facts.key_problem = key::KeyRefusal{key::KeyProblem::Missing};
  for (const std::string_view method : {"GET", "PUT", "DELETE", "HEAD", "post", ""}) {
    facts.method = method;
    EXPECT_EQ(decideRequest(required(), facts), RequestDecision(Pass{PassReason::Uncovered}))
        << method;
  }
}

TEST(DecideRequestTest, MissingKeyIsRefusedOnlyWhereRequired) {
  RequestFacts facts = goodRequest();
  facts.key_problem = key::KeyRefusal{key::KeyProblem::Missing};
  EXPECT_EQ(decideRequest(required(), facts),
            RequestDecision(Answer{.problem = Problem::KeyMissing}));
  const Policy optional = with([](Policy& p) { p.enforcement = Enforcement::Optional; });
  EXPECT_EQ(decideRequest(optional, facts), RequestDecision(Pass{PassReason::NoKey}));
}

TEST(DecideRequestTest, BadKeyIsRefusedEvenWhereOptional) {
  for (const Enforcement enforcement : {Enforcement::Optional, Enforcement::Required}) {
    const Policy policy = with([&](Policy& p) { p.enforcement = enforcement; });
    for (const key::KeyProblem problem :
         {key::KeyProblem::TwoLines, key::KeyProblem::Malformed, key::KeyProblem::BadCharacter,
          key::KeyProblem::TooShort, key::KeyProblem::TooLong, key::KeyProblem::NotUuid}) {
      RequestFacts facts = goodRequest();
      facts.key_problem = key::KeyRefusal{problem, 5};
      EXPECT_EQ(decideRequest(policy, facts),
                RequestDecision(Answer{.problem = Problem::KeyInvalid,
                                       .key_problem = key::KeyRefusal{problem, 5}}));
    }
  }
}

TEST(DecideRequestTest, RequestWithoutATenantIsRefused) {
  RequestFacts facts = goodRequest();
  facts.tenant_known = false;
  EXPECT_EQ(decideRequest(required(), facts),
            RequestDecision(Answer{.problem = Problem::TenantMissing}));
}

TEST(DecideRequestTest, AgeCountsOnlyWhereThePolicyAsks) {
  const Policy guarded = with([](Policy& p) { p.max_request_age = RequestAgeRules{"date", 60s}; });
  for (const RequestAge age :
       {RequestAge::Missing, RequestAge::Unreadable, RequestAge::TooOld, RequestAge::TooNew}) {
    RequestFacts facts = goodRequest();
    facts.age = age;
    EXPECT_EQ(decideRequest(guarded, facts),
              RequestDecision(Answer{.problem = Problem::RequestTooOld}));
    EXPECT_EQ(decideRequest(required(), facts), RequestDecision(Claim{}));
  }
  EXPECT_EQ(decideRequest(guarded, goodRequest()), RequestDecision(Claim{}));
}

TEST(DecideRequestTest, LargeBodyIsRefused) {
  RequestFacts facts = goodRequest();
  facts.body_too_large = true;
  EXPECT_EQ(decideRequest(required(), facts),
            RequestDecision(Answer{.problem = Problem::RequestTooLarge}));
}

TEST(DecideRequestTest, BodyThatWaitsForAContinueIsRefusedWithAKeyOnly) {
  RequestFacts facts = goodRequest();
  facts.awaits_continue = true;
  EXPECT_EQ(decideRequest(required(), facts),
            RequestDecision(Answer{.problem = Problem::ExpectationFailed}));
  Policy optional = required();
  optional.enforcement = Enforcement::Optional;
  facts.key_problem = key::KeyRefusal{key::KeyProblem::Missing};
  EXPECT_EQ(decideRequest(optional, facts), RequestDecision(Pass{PassReason::NoKey}));
}

TEST(DecideRequestTest, UpgradeIsRefusedWithAKeyOnly) {
  RequestFacts facts = goodRequest();
  facts.upgrade = true;
  EXPECT_EQ(decideRequest(required(), facts),
            RequestDecision(Answer{.problem = Problem::UpgradeRefused}));
  Policy optional = required();
  optional.enforcement = Enforcement::Optional;
  facts.key_problem = key::KeyRefusal{key::KeyProblem::Missing};
  EXPECT_EQ(decideRequest(optional, facts), RequestDecision(Pass{PassReason::NoKey}));
}

// --- The store's answer
// -----------------------------------------------------------------------------------

RecordFacts recordIn(RecordState state) {
  return {.state = state, .match = FingerprintMatch::Same, .attempt = Other};
}

struct Row {
  std::string name;
  Policy policy;
  ClaimFacts facts;
  StoreResult result;
  Decision want;
};

Row row(std::string name, Policy policy, RecordFacts record, Decision want, ClaimFacts facts = {}) {
  return {std::move(name), std::move(policy), facts, RecordFound{record}, std::move(want)};
}

Answer outcomeUnknown() {
  return {.problem = Problem::OutcomeUnknown};
}

std::vector<Row> rows() {
  const Policy retry = with([](Policy& p) { p.on_lease_expired = LeaseExpired::Retry; });
  const Policy gone = with([](Policy& p) { p.on_expired = ExpiredKey::Gone; });
  const Policy accepted = with(
      [](Policy& p) { p.in_flight = {.action = InFlightAction::Accepted, .retry_after = 7s}; });
  const Policy wait = with([](Policy& p) {
    p.in_flight = {.action = InFlightAction::Wait, .wait = 2000ms, .retry_after = 3s};
  });
  const Policy fail_open = with([](Policy& p) { p.on_store_failure = StoreFailure::FailOpen; });
  const Policy retry_after = with([](Policy& p) { p.in_flight.retry_after = 9s; });

  RecordFacts live = recordIn(RecordState::InProgress);
  live.lease_alive = true;
  const RecordFacts dead = recordIn(RecordState::InProgress);
  RecordFacts dead_retry = dead;
  dead_retry.on_lease_expired = LeaseExpired::Retry;
  RecordFacts stored = recordIn(RecordState::Completed);
  stored.has_response = true;
  stored.status = 201;
  RecordFacts tombstone = recordIn(RecordState::Completed);
  tombstone.status = 201;
  RecordFacts stored_old = stored;
  stored_old.past_life = true;
  const RecordFacts failed = recordIn(RecordState::FailedRetryable);
  RecordFacts failed_old = failed;
  failed_old.past_life = true;
  const RecordFacts unknown = recordIn(RecordState::Unknown);
  RecordFacts unknown_old = unknown;
  unknown_old.past_life = true;
  unknown_old.claim_age = 100h;
  RecordFacts unknown_ripe = unknown;
  unknown_ripe.claim_age = 48h;
  RecordFacts unknown_unripe = unknown;
  unknown_unripe.claim_age = 48h - 1ms;
  RecordFacts reconciled = unknown;
  reconciled.reconcile_after = 12s;
  const RecordFacts expired = recordIn(RecordState::Expired);
  RecordFacts live_old = live;
  live_old.past_life = true;
  live_old.claim_age = 100h;
  RecordFacts dead_old = dead;
  dead_old.past_life = true;
  dead_old.claim_age = 100h;
  stored_old.claim_age = 100h;
  const Policy retained = with([](Policy& p) { p.unknown_retention = 48h; });
  const Policy retained_gone = with([](Policy& p) {
    p.unknown_retention = 48h;
    p.on_expired = ExpiredKey::Gone;
  });
  const Policy retained_retry = with([](Policy& p) {
    p.unknown_retention = 48h;
    p.on_lease_expired = LeaseExpired::Retry;
  });
  const Decision unknown_expired = Answer{.problem = Problem::UnknownExpired};

  const auto different = [](RecordFacts record) {
    record.match = FingerprintMatch::Different;
    return record;
  };
  const auto unverifiable = [](RecordFacts record) {
    record.match = FingerprintMatch::Unverifiable;
    return record;
  };
  const Decision in_progress = Answer{.problem = Problem::InProgress, .retry_after = 1s};
  const Decision async = Answer{.problem = Problem::Asynchronous, .retry_after = 1s};
  const Decision reused = Answer{.problem = Problem::KeyReused};
  const Decision unreadable = Answer{.problem = Problem::RecordUnreadable, .retry_after = 1s};

  return {
      {"the claim is ours", required(), {}, ClaimGranted{}, Run{}},
      {"store down",
       retry_after,
       {},
       StoreFailed{},
       Answer{.problem = Problem::StoreUnavailable, .retry_after = 9s}},
      {"store down, it says for how long",
       required(),
       {},
       StoreFailed{4s},
       Answer{.problem = Problem::StoreUnavailable, .retry_after = 4s}},
      {"store down, fail open", fail_open, {}, StoreFailed{}, Pass{PassReason::StoreFailOpen}},
      {"no room",
       required(),
       {},
       NoRoom{},
       Answer{.problem = Problem::Overloaded, .retry_after = 1s}},
      {"no room, fail open: the store has not failed",
       fail_open,
       {},
       NoRoom{},
       Answer{.problem = Problem::Overloaded, .retry_after = 1s}},
      {"quota",
       fail_open,
       {},
       QuotaReached{6s},
       Answer{.problem = Problem::QuotaExceeded, .retry_after = 6s}},

      row("completed", required(), stored, Replay{}),
      row("completed, never opened by a store policy", fail_open, stored, Replay{}),
      row("completed, response not kept", required(), tombstone,
          Answer{.problem = Problem::ResponseUnavailable, .original_status = 201}),
      row("completed, past its life", required(), stored_old,
          Reclaim{RecordState::Completed, Other}),
      row("completed, past its life, GONE", gone, stored_old,
          Answer{.problem = Problem::KeyExpired}),

      row("in progress", required(), live, in_progress),
      row("in progress, own retry_after", retry_after, live,
          Answer{.problem = Problem::InProgress, .retry_after = 9s}),
      row("in progress, ACCEPTED", accepted, live,
          Answer{.problem = Problem::Accepted, .retry_after = 7s}),
      row("in progress, WAIT", wait, live, Wait{2000ms}),
      row("in progress, WAIT, waited a while", wait, live, Wait{500ms}, {.waited = 1500ms}),
      row("in progress, WAIT, waited enough", wait, live,
          Answer{.problem = Problem::InProgress, .retry_after = 3s}, {.waited = 2000ms}),
      row("in progress, WAIT, waited too long", wait, live,
          Answer{.problem = Problem::InProgress, .retry_after = 3s}, {.waited = 9000ms}),
      row("in progress, asynchronous", required(), live, async, {.async_wait = 0ms}),
      row("in progress, asynchronous, whatever the policy's in_flight is", wait, live,
          Answer{.problem = Problem::Asynchronous, .retry_after = 3s}, {.async_wait = 0ms}),
      row("in progress, asynchronous, waits", required(), live, Wait{5000ms},
          {.async_wait = 5000ms}),
      row("in progress, asynchronous, waited a while", required(), live, Wait{1000ms},
          {.waited = 4000ms, .async_wait = 5000ms}),
      row("in progress, asynchronous, waited enough", required(), live, async,
          {.waited = 5000ms, .async_wait = 5000ms}),
      row("completed, asynchronous", required(), stored, Replay{}, {.async_wait = 5000ms}),
      row("lease ran out, asynchronous", required(), dead, outcomeUnknown(),
          {.async_wait = 5000ms}),
      row("in progress, past its life but alive", required(), live_old, in_progress),
      row("in progress, past its life but alive, GONE", gone, live_old, in_progress),

      row("lease ran out", required(), dead, outcomeUnknown()),
      row("lease ran out, WAIT", wait, dead, outcomeUnknown()),
      row("lease ran out, ACCEPTED", accepted, dead, outcomeUnknown()),
      row("lease ran out, RETRY", retry, dead_retry, Reclaim{RecordState::InProgress, Other}),
      row("lease ran out, RETRY but claimed under UNKNOWN", retry, dead, outcomeUnknown()),
      row("lease ran out, claimed under RETRY but UNKNOWN now", required(), dead_retry,
          outcomeUnknown()),
      row("lease ran out, claimed under UNKNOWN, past the retention", retained_retry, dead_old,
          unknown_expired),
      row("lease ran out, past its life", required(), dead_old, outcomeUnknown()),

      row("failed", required(), failed, Reclaim{RecordState::FailedRetryable, Other}),
      row("failed, past its life", required(), failed_old,
          Reclaim{RecordState::FailedRetryable, Other}),
      row("failed, GONE", gone, failed, Reclaim{RecordState::FailedRetryable, Other}),
      row("failed, past its life, GONE", gone, failed_old, Answer{.problem = Problem::KeyExpired}),

      row("unknown", required(), unknown, outcomeUnknown()),
      row("unknown, being reconciled", required(), reconciled,
          Answer{.problem = Problem::OutcomeUnknown, .retry_after = 12s}),
      row("unknown, RETRY moves only leases", retry, unknown, outcomeUnknown()),
      row("unknown, past its life", required(), unknown_old, outcomeUnknown()),
      row("unknown, past its life, GONE", gone, unknown_old, outcomeUnknown()),
      row("unknown, FAIL_OPEN", fail_open, unknown, outcomeUnknown()),
      row("unknown, within its retention", retained, unknown_unripe, outcomeUnknown()),
      row("unknown, at the end of its retention", retained, unknown_ripe, unknown_expired),
      row("unknown, past its retention and its life", retained, unknown_old, unknown_expired),
      row("unknown, past its retention, GONE", retained_gone, unknown_old, unknown_expired),
      row("unknown, past its retention, RETRY", retained_retry, unknown_old, unknown_expired),
      row("unknown, past its retention, other request", retained, different(unknown_old), reused),
      row("lease over, past the retention", retained, dead_old, unknown_expired),
      row("lease alive, past the retention", retained, live_old, in_progress),
      row("completed, past the retention and its life", retained, stored_old,
          Reclaim{RecordState::Completed, Other}),

      row("expired", required(), expired, Reclaim{RecordState::Expired, Other}),
      row("expired, GONE", gone, expired, Answer{.problem = Problem::KeyExpired}),

      row("other request, completed", required(), different(stored), reused),
      row("other request, tombstone", required(), different(tombstone), reused),
      row("other request, in progress", required(), different(live), reused),
      row("other request, in progress, WAIT", wait, different(live), reused),
      row("other request, in progress, ACCEPTED", accepted, different(live), reused),
      row("other request, lease ran out", required(), different(dead), reused),
      row("other request, lease ran out, RETRY", retry, different(dead_retry), reused),
      row("other request, failed", required(), different(failed), reused),
      row("other request, unknown", required(), different(unknown), reused),
      row("other request, expired, GONE", gone, different(expired), reused),
      row("other request, completed past its life, GONE", gone, different(stored_old), reused),
      row("other request, expired", required(), different(expired),
          Reclaim{RecordState::Expired, Other}),
      row("other request, completed past its life", required(), different(stored_old),
          Reclaim{RecordState::Completed, Other}),

      row("fingerprint of another version, completed", required(), unverifiable(stored),
          unreadable),
      row("fingerprint of another version, failed", required(), unverifiable(failed), unreadable),
      row("fingerprint of another version, FAIL_OPEN", fail_open, unverifiable(unknown),
          unreadable),
      row("fingerprint of another version, expired", required(), unverifiable(expired),
          Reclaim{RecordState::Expired, Other}),
      row("state of another version", required(), recordIn(static_cast<RecordState>(99)),
          unreadable),
      row("zeroed facts", required(), RecordFacts{}, unreadable),
  };
}

class DecideTest : public testing::TestWithParam<Row> {};

std::ostream& operator<<(std::ostream& out, const Row& row) {
  return out << row.name;
}

std::string describe(const Decision& decision) {
  static constexpr const char* Names[] = {"Answer", "Pass", "Reclaim", "Run", "Replay", "Wait"};
  std::string text = Names[decision.index()];
  if (const auto* answer = std::get_if<Answer>(&decision)) {
    text += " " + std::string(problemCode(answer->problem));
  }
  return text;
}

TEST_P(DecideTest, GivesTheDesignsRow) {
  const Decision got = decide(GetParam().policy, GetParam().facts, GetParam().result);
  EXPECT_TRUE(got == GetParam().want)
      << GetParam().name << ": got " << describe(got) << ", want " << describe(GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(Rows, DecideTest, testing::ValuesIn(rows()));

// --- The status of a run

TEST(DecideStatusTest, EveryStateHasItsAnswer) {
  struct StatusRow {
    RecordFacts record;
    StatusDecision decision;
  };
  RecordFacts live = recordIn(RecordState::InProgress);
  live.lease_alive = true;
  RecordFacts dead = recordIn(RecordState::InProgress);
  RecordFacts dead_retry = dead;
  dead_retry.on_lease_expired = LeaseExpired::Retry;
  RecordFacts stored = recordIn(RecordState::Completed);
  stored.has_response = true;
  RecordFacts tombstone = recordIn(RecordState::Completed);
  tombstone.status = 201;
  tombstone.has_response = false;
  RecordFacts old = stored;
  old.past_life = true;
  RecordFacts settling = recordIn(RecordState::Unknown);
  settling.reconcile_after = 4s;
  const StatusRow rows[] = {
      {live, Answer{.problem = Problem::Asynchronous, .retry_after = 1s}},
      {dead, Answer{.problem = Problem::OutcomeUnknown}},
      {dead_retry, Answer{.problem = Problem::RunNotCompleted}},
      {stored, Replay{}},
      {tombstone, Answer{.problem = Problem::ResponseUnavailable, .original_status = 201}},
      {old, Answer{.problem = Problem::KeyExpired}},
      {recordIn(RecordState::FailedRetryable), Answer{.problem = Problem::RunNotCompleted}},
      {recordIn(RecordState::Unknown), Answer{.problem = Problem::OutcomeUnknown}},
      {settling, Answer{.problem = Problem::OutcomeUnknown, .retry_after = 4s}},
      {recordIn(RecordState::Expired), Answer{.problem = Problem::KeyExpired}},
  };
  for (const StatusRow& row : rows) {
    EXPECT_EQ(decideStatus(Policy(), RecordFound{row.record}), row.decision)
        << static_cast<int>(row.record.state);
  }
}

TEST(DecideStatusTest, WithoutARecord) {
  Policy policy;
  policy.on_store_failure = StoreFailure::FailOpen;  // There is nothing to pass on.
  EXPECT_EQ(decideStatus(policy, RecordAbsent{}),
            StatusDecision(Answer{.problem = Problem::RunNotFound}));
  EXPECT_EQ(decideStatus(policy, StoreFailed{}),
            StatusDecision(Answer{.problem = Problem::StoreUnavailable, .retry_after = 1s}));
  EXPECT_EQ(decideStatus(policy, NoRoom{}),
            StatusDecision(Answer{.problem = Problem::Overloaded, .retry_after = 1s}));
  EXPECT_EQ(decideStatus(policy, QuotaReached{6s}),
            StatusDecision(Answer{.problem = Problem::QuotaExceeded, .retry_after = 6s}));
}

// What must hold for every combination of facts and policies, whatever the rows above say.
TEST(DecideAlwaysTest, NoCombinationOfFactsRunsWithoutAClaim) {
  int combinations = 0;
  for (const auto action :
       {InFlightAction::Reject, InFlightAction::Accepted, InFlightAction::Wait}) {
    for (const auto lease : {LeaseExpired::Unknown, LeaseExpired::Retry}) {
      for (const auto on_expired : {ExpiredKey::Run, ExpiredKey::Gone}) {
        for (const auto failure : {StoreFailure::FailClosed, StoreFailure::FailOpen}) {
          Policy policy = required();
          policy.in_flight.action = action;
          policy.in_flight.wait = 100ms;
          policy.on_lease_expired = lease;
          policy.on_expired = on_expired;
          policy.on_store_failure = failure;
          for (int state = 0; state <= 6; ++state) {
            for (const auto match : {FingerprintMatch::Unverifiable, FingerprintMatch::Different,
                                     FingerprintMatch::Same}) {
              for (int bits = 0; bits < 16; ++bits) {
                RecordFacts record = recordIn(static_cast<RecordState>(state));
                record.match = match;
                record.lease_alive = (bits & 1) != 0;
                record.past_life = (bits & 2) != 0;
                record.has_response = (bits & 4) != 0;
                record.on_lease_expired =
                    (bits & 8) != 0 ? LeaseExpired::Retry : LeaseExpired::Unknown;
                const Decision decision = decide(policy, {}, RecordFound{record});
                ++combinations;
                // Another's record never lets the upstream be called, nor passes the request on.
                EXPECT_FALSE(std::holds_alternative<idempotency::protocol::Run>(decision));
                EXPECT_FALSE(std::holds_alternative<Pass>(decision));
                if (std::holds_alternative<Replay>(decision)) {
                  EXPECT_EQ(match, FingerprintMatch::Same);
                  EXPECT_EQ(record.state, RecordState::Completed);
                  EXPECT_TRUE(record.has_response);
                }
                if (const auto* reclaim = std::get_if<Reclaim>(&decision)) {
                  EXPECT_EQ(reclaim->from_attempt, Other);
                  EXPECT_EQ(reclaim->from_state, record.state);
                  EXPECT_NE(record.state, RecordState::Unknown);
                  if (record.state == RecordState::InProgress) {
                    EXPECT_EQ(lease, LeaseExpired::Retry);
                    EXPECT_EQ(record.on_lease_expired, LeaseExpired::Retry);
                    EXPECT_FALSE(record.lease_alive);
                    EXPECT_EQ(match, FingerprintMatch::Same);
                  }
                }
              }
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(combinations, 3 * 2 * 2 * 2 * 7 * 3 * 16);
}

}  // namespace
}  // namespace idempotency::protocol
