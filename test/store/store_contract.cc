// The shared part of the contract suites; the tests are in the files beside this one.
#include "test/store/store_contract.h"

#include <thread>

namespace idempotency::test {

using namespace std::chrono_literals;

bool eventually(const std::function<bool()>& condition) {
  const Deadline end = soon();
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

std::string_view name(Situation situation) {
  switch (situation) {
    case Situation::Absent:
      return "Absent";
    case Situation::Running:
      return "Running";
    case Situation::LeaseOver:
      return "LeaseOver";
    case Situation::Completed:
      return "Completed";
    case Situation::CompletedPastLife:
      return "CompletedPastLife";
    case Situation::Failed:
      return "Failed";
    case Situation::FailedPastLife:
      return "FailedPastLife";
    case Situation::Unknown:
      return "Unknown";
    case Situation::UnknownPastLife:
      return "UnknownPastLife";
    case Situation::Expired:
      return "Expired";
  }
  return "invalid";
}

Identity StoreContractFixture::identity(const std::string& key, const std::string& tenant) {
  return {.tenant = tenant, .operation = "operation", .key = key};
}

// Hours and days, so that no test depends on how fast it runs.
ClaimRequest StoreContractFixture::claimRequest(const Identity& identity) {
  ClaimRequest request;
  request.identity = identity;
  request.fingerprint = std::string("\x01", 1) + std::string(32, 'f');
  request.attempt = newAttempt();
  request.lease = 1h;
  request.ttl = 24h;
  return request;
}

CompleteRequest StoreContractFixture::completeRequest(const ClaimRef& claim, std::string response) {
  CompleteRequest request;
  request.claim = claim;
  request.status = 201;
  request.response_schema = 1;
  request.response = std::move(response);
  return request;
}

ClaimResult StoreContractFixture::claim(ClaimRequest request) {
  Answer<ClaimResult> answer;
  store().claim(std::move(request), soon(), answer.callback());
  return answer.get();
}

ClaimRef StoreContractFixture::mustClaim(ClaimRequest request) {
  const ClaimRef ref{request.identity, request.attempt};
  const ClaimResult result = claim(std::move(request));
  EXPECT_TRUE(std::holds_alternative<Claimed>(result)) << "alternative " << result.index();
  return ref;
}

ClaimRef StoreContractFixture::mustClaim(const Identity& identity) {
  return mustClaim(claimRequest(identity));
}

ClaimRef StoreContractFixture::mustReclaim(const Identity& identity) {
  const Record found = mustFind(identity);
  ClaimRequest request = claimRequest(identity);
  request.from = ReclaimFrom{found.state, found.attempt};
  return mustClaim(std::move(request));
}

WriteOutcome StoreContractFixture::complete(CompleteRequest request) {
  Answer<WriteResult> answer;
  store().complete(std::move(request), soon(), answer.callback());
  return answer.get().outcome;
}

WriteOutcome StoreContractFixture::fail(const ClaimRef& claim, std::string error) {
  Answer<WriteResult> answer;
  store().fail({claim, std::move(error)}, soon(), answer.callback());
  return answer.get().outcome;
}

WriteOutcome StoreContractFixture::release(const ClaimRef& claim) {
  Answer<WriteResult> answer;
  store().release(claim, soon(), answer.callback());
  return answer.get().outcome;
}

WriteOutcome StoreContractFixture::markUnknown(
    const ClaimRef& claim, std::optional<std::chrono::milliseconds> reconcile_after) {
  Answer<WriteResult> answer;
  store().markUnknown({claim, "upstream_reset", reconcile_after}, soon(), answer.callback());
  return answer.get().outcome;
}

WriteOutcome StoreContractFixture::extend(const ClaimRef& claim, std::chrono::milliseconds lease) {
  Answer<ExtendResult> answer;
  store().extend({claim}, lease, soon(), answer.callback());
  const ExtendResult result = answer.get();
  EXPECT_EQ(result.size(), 1U);
  return result.empty() ? WriteOutcome::Unavailable : result[0].outcome;
}

std::optional<Record> StoreContractFixture::lookUp(const Identity& identity) {
  Answer<LookUpResult> answer;
  store().lookUp(identity, soon(), answer.callback());
  LookUpResult result = answer.get();
  if (const auto* unavailable = std::get_if<Unavailable>(&result)) {
    ADD_FAILURE() << "look-up: " << unavailable->reason;
  }
  auto* const record = std::get_if<Record>(&result);
  return record == nullptr ? std::nullopt : std::optional<Record>(std::move(*record));
}

Record StoreContractFixture::mustFind(const Identity& identity) {
  std::optional<Record> record = lookUp(identity);
  EXPECT_TRUE(record.has_value()) << "no record";
  return record.value_or(Record());
}

MaintenanceResult StoreContractFixture::sweep(
    uint32_t limit, std::optional<std::chrono::milliseconds> reconcile_after) {
  Answer<MaintenanceResult> answer;
  rig_->maintenance().sweep(limit, reconcile_after, soon(), answer.callback());
  MaintenanceResult result = answer.get();
  EXPECT_TRUE(result.ok) << result.reason;
  return result;
}

MaintenanceResult StoreContractFixture::reap(uint32_t limit, bool soft) {
  Answer<MaintenanceResult> answer;
  rig_->maintenance().reap(limit, soft, soon(), answer.callback());
  MaintenanceResult result = answer.get();
  EXPECT_TRUE(result.ok) << result.reason;
  return result;
}

ClaimRef StoreContractFixture::reach(Situation situation, const Identity& identity) {
  const ClaimRef ref = mustClaim(identity);
  switch (situation) {
    case Situation::Absent:
      EXPECT_EQ(release(ref), WriteOutcome::Done);
      break;
    case Situation::Running:
      break;
    case Situation::LeaseOver:
      rig_->passTime(2h);
      break;
    case Situation::Completed:
      EXPECT_EQ(complete(completeRequest(ref)), WriteOutcome::Done);
      break;
    case Situation::CompletedPastLife:
      EXPECT_EQ(complete(completeRequest(ref)), WriteOutcome::Done);
      rig_->passTime(25h);
      break;
    case Situation::Failed:
      EXPECT_EQ(fail(ref), WriteOutcome::Done);
      break;
    case Situation::FailedPastLife:
      EXPECT_EQ(fail(ref), WriteOutcome::Done);
      rig_->passTime(25h);
      break;
    case Situation::Unknown:
      EXPECT_EQ(markUnknown(ref, 1h), WriteOutcome::Done);
      break;
    case Situation::UnknownPastLife:
      EXPECT_EQ(markUnknown(ref, 1h), WriteOutcome::Done);
      rig_->passTime(25h);
      break;
    case Situation::Expired:
      EXPECT_EQ(complete(completeRequest(ref)), WriteOutcome::Done);
      rig_->passTime(25h);
      EXPECT_GE(reap(1000, true).expired, 1U);  // Others may be due as well.
      break;
  }
  return ref;
}

::testing::AssertionResult sameRecord(const std::optional<Record>& before,
                                      const std::optional<Record>& after) {
  if (before.has_value() != after.has_value()) {
    return ::testing::AssertionFailure() << (after.has_value() ? "appeared" : "disappeared");
  }
  if (!before.has_value()) {
    return ::testing::AssertionSuccess();
  }
  const auto differs = [](std::string_view what) {
    return ::testing::AssertionFailure() << what << " changed";
  };
  const Record& a = *before;
  const Record& b = *after;
  if (a.state != b.state) {
    return differs("state");
  }
  if (a.attempt != b.attempt) {
    return differs("attempt");
  }
  if (a.fingerprint != b.fingerprint) {
    return differs("fingerprint");
  }
  if (a.recovery_point != b.recovery_point) {
    return differs("recovery_point");
  }
  if (a.lease_alive != b.lease_alive) {
    return differs("lease_alive");
  }
  if (a.created_at != b.created_at || a.expires_at != b.expires_at ||
      a.completed_at != b.completed_at || a.past_life != b.past_life) {
    return differs("a time");
  }
  if (a.reconcile_after.has_value() != b.reconcile_after.has_value() ||
      a.dead_letter != b.dead_letter) {
    return differs("reconciliation");
  }
  if (a.last_error != b.last_error) {
    return differs("last_error");
  }
  if (a.status != b.status || a.tombstone != b.tombstone ||
      a.response_schema != b.response_schema || a.response != b.response) {
    return differs("the response");
  }
  return ::testing::AssertionSuccess();
}

}  // namespace idempotency::test
