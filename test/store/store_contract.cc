// The shared part of the contract suites; the tests are in the files beside this one.
#include "test/store/store_contract.h"

#include <thread>

namespace idempotency::test {

using namespace std::chrono_literals;

bool eventually(const std::function<bool()>& condition) {
  const store::Deadline end = soon();
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
    case Situation::LeaseOverRetry:
      return "LeaseOverRetry";
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

protocol::Identity StoreContractFixture::identity(const std::string& key,
                                                  const std::string& tenant) {
  return {.tenant = tenant, .operation = "operation", .key = key};
}

// Hours and days, so that no test depends on how fast it runs.
store::ClaimRequest StoreContractFixture::claimRequest(const protocol::Identity& identity) {
  store::ClaimRequest request;
  request.identity = identity;
  request.fingerprint = std::string("\x01", 1) + std::string(32, 'f');
  request.attempt = store::newAttempt();
  request.lease = 1h;
  request.ttl = 24h;
  return request;
}

protocol::Completed StoreContractFixture::completion(std::string response) {
  protocol::Completed completed;
  completed.status = 201;
  completed.response_schema = 1;
  completed.response = std::move(response);
  return completed;
}

store::ClaimResult StoreContractFixture::claim(store::ClaimRequest request) {
  Answer<store::ClaimResult> answer;
  store().claim(std::move(request), soon(), answer.callback());
  return answer.get();
}

store::ClaimRef StoreContractFixture::mustClaim(store::ClaimRequest request) {
  const store::ClaimRef ref{request.identity, request.attempt};
  const store::ClaimResult result = claim(std::move(request));
  EXPECT_TRUE(std::holds_alternative<store::Claimed>(result)) << "alternative " << result.index();
  return ref;
}

store::ClaimRef StoreContractFixture::mustClaim(const protocol::Identity& identity) {
  return mustClaim(claimRequest(identity));
}

store::ClaimRequest StoreContractFixture::reclaimRequest(const protocol::Identity& identity,
                                                         protocol::LeaseExpired on_lease_expired) {
  const store::Record found = mustFind(identity);
  store::ClaimRequest request = claimRequest(identity);
  request.on_lease_expired = on_lease_expired;
  request.from = store::ReclaimFrom{found.state, found.attempt};
  return request;
}

store::ClaimRef StoreContractFixture::mustReclaim(const protocol::Identity& identity) {
  return mustClaim(reclaimRequest(identity));
}

store::WriteOutcome StoreContractFixture::settle(const store::ClaimRef& claim,
                                                 protocol::Ending ending) {
  return settleWith(claim, std::move(ending)).outcome;
}

store::WriteResult StoreContractFixture::settleWith(const store::ClaimRef& claim,
                                                    protocol::Ending ending) {
  Answer<store::WriteResult> answer;
  store().settle(claim, std::move(ending), soon(), answer.callback());
  return answer.get();
}

store::WriteOutcome StoreContractFixture::complete(const store::ClaimRef& claim,
                                                   protocol::Completed completed) {
  return settle(claim, std::move(completed));
}

store::WriteOutcome StoreContractFixture::fail(const store::ClaimRef& claim, std::string error) {
  return settle(claim, protocol::Failed{std::move(error)});
}

store::WriteOutcome StoreContractFixture::release(const store::ClaimRef& claim) {
  return settle(claim, protocol::Released{});
}

store::WriteOutcome StoreContractFixture::markUnknown(
    const store::ClaimRef& claim, std::optional<std::chrono::milliseconds> reconcile_after) {
  return settle(claim, protocol::Unknown{"upstream_reset", reconcile_after});
}

store::WriteOutcome StoreContractFixture::extend(const store::ClaimRef& claim,
                                                 std::chrono::milliseconds lease) {
  Answer<store::ExtendResult> answer;
  store().extend({claim}, lease, soon(), answer.callback());
  const store::ExtendResult result = answer.get();
  EXPECT_EQ(result.size(), 1U);
  return result.empty() ? store::WriteOutcome::Unavailable : result[0].outcome;
}

std::optional<store::Record> StoreContractFixture::lookUp(const protocol::Identity& identity) {
  Answer<store::LookUpResult> answer;
  store().lookUp(identity, soon(), answer.callback());
  store::LookUpResult result = answer.get();
  if (const auto* unavailable = std::get_if<store::Unavailable>(&result)) {
    ADD_FAILURE() << "look-up: " << unavailable->reason;
  }
  auto* const record = std::get_if<store::Record>(&result);
  return record == nullptr ? std::nullopt : std::optional<store::Record>(std::move(*record));
}

store::Record StoreContractFixture::mustFind(const protocol::Identity& identity) {
  std::optional<store::Record> record = lookUp(identity);
  EXPECT_TRUE(record.has_value()) << "no record";
  return record.value_or(store::Record());
}

store::MaintenanceResult StoreContractFixture::sweep(
    uint32_t limit, std::optional<std::chrono::milliseconds> reconcile_after) {
  Answer<store::MaintenanceResult> answer;
  rig_->maintenance().sweep(limit, reconcile_after, soon(), answer.callback());
  store::MaintenanceResult result = answer.get();
  EXPECT_TRUE(result.ok) << result.reason;
  return result;
}

store::MaintenanceResult StoreContractFixture::reap(uint32_t limit, bool soft) {
  Answer<store::MaintenanceResult> answer;
  rig_->maintenance().reap(limit, soft, soon(), answer.callback());
  store::MaintenanceResult result = answer.get();
  EXPECT_TRUE(result.ok) << result.reason;
  return result;
}

store::ClaimRef StoreContractFixture::reach(Situation situation,
                                            const protocol::Identity& identity) {
  store::ClaimRequest request = claimRequest(identity);
  if (situation == Situation::LeaseOverRetry) {
    request.on_lease_expired = protocol::LeaseExpired::Retry;
  }
  const store::ClaimRef ref = mustClaim(request);
  switch (situation) {
    case Situation::Absent:
      EXPECT_EQ(release(ref), store::WriteOutcome::Done);
      break;
    case Situation::Running:
      break;
    case Situation::LeaseOver:
    case Situation::LeaseOverRetry:
      rig_->passTime(2h);
      break;
    case Situation::Completed:
      EXPECT_EQ(complete(ref, completion()), store::WriteOutcome::Done);
      break;
    case Situation::CompletedPastLife:
      EXPECT_EQ(complete(ref, completion()), store::WriteOutcome::Done);
      rig_->passTime(25h);
      break;
    case Situation::Failed:
      EXPECT_EQ(fail(ref), store::WriteOutcome::Done);
      break;
    case Situation::FailedPastLife:
      EXPECT_EQ(fail(ref), store::WriteOutcome::Done);
      rig_->passTime(25h);
      break;
    case Situation::Unknown:
      EXPECT_EQ(markUnknown(ref, 1h), store::WriteOutcome::Done);
      break;
    case Situation::UnknownPastLife:
      EXPECT_EQ(markUnknown(ref, 1h), store::WriteOutcome::Done);
      rig_->passTime(25h);
      break;
    case Situation::Expired:
      EXPECT_EQ(complete(ref, completion()), store::WriteOutcome::Done);
      rig_->passTime(25h);
      EXPECT_GE(reap(1000, true).expired, 1U);  // Others may be due as well.
      break;
  }
  return ref;
}

::testing::AssertionResult sameRecord(const std::optional<store::Record>& before,
                                      const std::optional<store::Record>& after) {
  if (before.has_value() != after.has_value()) {
    return ::testing::AssertionFailure() << (after.has_value() ? "appeared" : "disappeared");
  }
  if (!before.has_value()) {
    return ::testing::AssertionSuccess();
  }
  const auto differs = [](std::string_view what) {
    return ::testing::AssertionFailure() << what << " changed";
  };
  const store::Record& a = *before;
  const store::Record& b = *after;
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
  if (a.on_lease_expired != b.on_lease_expired) {
    return differs("on_lease_expired");
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
