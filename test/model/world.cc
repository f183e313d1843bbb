#include "test/model/world.h"

#include <algorithm>
#include <fmt/format.h>

namespace idempotency::model {
namespace {

using namespace std::chrono_literals;

constexpr const char* Refused = "upstream_reset_before_response_started{remote_connection_failure}";

std::string show(const protocol::Identity& identity) {
  return fmt::format("{}/{}/{}", identity.tenant, identity.operation, identity.key);
}

std::string show(const std::optional<ModelRecord>& record) {
  return record.has_value() ? fmt::format("{} by {} body {}", idempotency::name(record->state),
                                          record->attempt, record->body)
                            : "absent";
}

RecordPlace placeOf(const std::optional<ModelRecord>& record) {
  return record.has_value() ? RecordPlace(record->state) : std::nullopt;
}

bool isLegal(const Change& change) {
  const Transition* transition = findTransition(placeOf(change.before), change.event);
  return transition != nullptr && transition->to == placeOf(change.after);
}

}  // namespace

void Coverage::count(std::string_view what, std::string_view detail) {
  std::string key(what);
  key += detail;
  ++counts[std::move(key)];
}

World::World(uint64_t seed, Mutant mutant, Coverage& coverage, bool keep_log)
    : random_(seed), mutant_(mutant), coverage_(coverage), keep_log_(keep_log), store_(mutant) {
  for (const char* operation : {"a", "b"}) {
    protocol::Policy policy;
    policy.enforcement = protocol::Enforcement::Required;
    policy.on_lease_expired =
        chance(30) ? protocol::LeaseExpired::Retry : protocol::LeaseExpired::Unknown;
    policy.on_expired = chance(30) ? protocol::ExpiredKey::Gone : protocol::ExpiredKey::Run;
    if (chance(30)) {
      policy.unknown_retention = std::chrono::milliseconds(2 * Ttl);
    }
    policy.in_flight.action = static_cast<protocol::InFlightAction>(pick(3));
    policy.in_flight.wait = 1000ms;
    policy.store_response = !chance(10);
    if (chance(25)) {
      policy.retryable_statuses = {};
    }
    policies_.emplace(operation, policy);
    policy.on_lease_expired = protocol::LeaseExpired::Retry;
    retrying_.emplace(operation, policy);
  }
}

// --- Events
// -----------------------------------------------------------------------------------------------

std::optional<std::string> World::step() {
  using enum Request::Phase;
  const int event = pick(100);
  if (event < 18) {
    newRequest();
  } else if (event < 36) {
    if (Request* request = pickRequest({New, Waiting, Reclaiming})) {
      askStore(*request);
    }
  } else if (event < 46) {
    if (Request* request = pickRequest({Holding})) {
      sendUpstream(*request);
    }
  } else if (event < 56) {
    if (Call* call = pickCall(Call::Phase::InFlight)) {
      execute(*call);
    }
  } else if (event < 64) {
    if (Request* request = pickRequest({Sent})) {
      seeAnswer(*request);
    }
  } else if (event < 67) {
    if (Request* request = pickRequest({Sent})) {
      seeLoss(*request);
    }
  } else if (event < 70) {
    if (Request* request = pickRequest({Sent})) {
      seeRefusal(*request);
    }
  } else if (event < 72) {
    if (Request* request = pickRequest({Sent})) {
      seeRefusalAfterRetry(*request);
    }
  } else if (event < 82) {
    deliverWrite();
  } else if (event < 84) {
    duplicateOrLoseWrite();
  } else if (event < 86) {
    if (Request* request = pickRequest({New, Waiting, Reclaiming, Holding, Sent})) {
      crash(*request);
    }
  } else if (event < 88) {
    if (Request* request = pickRequest({Holding})) {
      leaveWhileHolding(*request);
    }
  } else if (event < 92) {
    store_.now += pick(chance(10) ? static_cast<int>(Ttl) : 7);
  } else if (event < 95) {
    heartbeat();
  } else if (event < 97) {
    store_.sweep();
  } else if (event < 98) {
    store_.reap(chance(50));
  } else {
    reconcile();
  }
  checkChanges();
  return violation_;
}

void World::newRequest() {
  Request request;
  request.id = static_cast<int>(requests_.size());
  request.identity = {pick(4) == 0 ? "t2" : "t1", pick(4) == 0 ? "b" : "a",
                      pick(4) == 0 ? "k2" : "k1"};
  request.body = pick(8) == 0 ? 2 : 1;
  requests_.push_back(request);
  note([&] {
    return fmt::format("request {} {} body {}", request.id, show(request.identity), request.body);
  });
}

// The claim, or the look again of a request that waits, or the re-claim that was decided on what
// was found.
void World::askStore(Request& request) {
  const std::optional<protocol::Reclaim> from =
      request.phase == Request::Phase::Reclaiming ? request.reclaim : std::nullopt;
  request.attempt = next_attempt_++;
  const protocol::Policy& policy = policyOf(request.identity);
  std::optional<ModelRecord> found =
      store_.claim(request.identity, request.body, request.attempt, policy.on_lease_expired, from);
  if (mutant_ == Mutant::ClaimWithoutRecord && found.has_value() && chance(20)) {
    found.reset();
  }
  note([&] {
    return fmt::format("request {} claims as {}: {}", request.id, request.attempt,
                       found.has_value() ? show(found) : "granted");
  });
  if (chance(5)) {
    // The answer is lost: the store withdraws the claim, if there is one, since nobody runs for it.
    coverage_.count("claim in doubt");
    if (!found.has_value()) {
      writes_.push_back(
          {request.identity, request.attempt, {protocol::EndingKind::Released}, {}, 0});
    }
    act(request, protocol::StoreFailed{});
    return;
  }
  act(request, found.has_value()
                   ? protocol::StoreResult(protocol::RecordFound{factsOf(*found, request)})
                   : protocol::StoreResult(protocol::ClaimGranted{}));
}

void World::act(Request& request, const protocol::StoreResult& result) {
  // While a policy is being changed, who asks may be told RETRY where the record's claim was not.
  const bool retries = mutant_ == Mutant::DeadLeaseIsRetried || chance(10);
  const protocol::Policy& policy =
      retries ? retrying_.at(request.identity.operation) : policyOf(request.identity);
  const bool waited = request.phase == Request::Phase::Waiting && chance(50);
  const protocol::Decision decision =
      protocol::decide(policy, {.waited = waited ? 1000ms : 0ms}, result);
  request.phase = Request::Phase::Gone;
  if (const auto* answer = std::get_if<protocol::Answer>(&decision)) {
    coverage_.count("answer ", protocol::problemCode(answer->problem));
  } else if (const auto* reclaim = std::get_if<protocol::Reclaim>(&decision)) {
    coverage_.count("reclaim from ", idempotency::name(reclaim->from_state));
    request.reclaim = *reclaim;
    request.phase = Request::Phase::Reclaiming;
  } else if (std::holds_alternative<protocol::Run>(decision)) {
    coverage_.count("run");
    request.phase = Request::Phase::Holding;
  } else if (std::holds_alternative<protocol::Wait>(decision)) {
    coverage_.count("wait");
    request.phase = Request::Phase::Waiting;
  } else if (std::holds_alternative<protocol::Replay>(decision)) {
    coverage_.count("replay");
    const auto record = store_.records().find(
        mutant_ == Mutant::TenantIsIgnored
            ? protocol::Identity{"all", request.identity.operation, request.identity.key}
            : request.identity);
    const ModelResponse& response = *record->second.response;
    if (response.identity != request.identity || response.body != request.body) {
      fail(fmt::format("request {} {} body {} got the response of {} body {}", request.id,
                       show(request.identity), request.body, show(response.identity),
                       response.body));
    }
    if (response.attempt != record->second.attempt) {
      fail(fmt::format("the record of attempt {} holds the response of attempt {}",
                       record->second.attempt, response.attempt));
    }
  } else {
    fail("a request passed without protection");
  }
}

void World::sendUpstream(Request& request) {
  request.phase = Request::Phase::Sent;
  calls_.push_back(
      {request.id, request.identity, request.body, request.attempt, Call::Phase::InFlight, {}});
  note([&] {
    return fmt::format("request {} goes to the upstream as {}", request.id, request.attempt);
  });
}

void World::execute(Call& call) {
  static constexpr int Statuses[] = {200, 201, 200, 404, 503, 401};
  const int status = Statuses[pick(std::size(Statuses))];
  call.phase = Call::Phase::Executed;
  call.response = {call.identity, call.body, call.attempt, next_run_++, status};
  const protocol::Policy& policy = policyOf(call.identity);
  note([&] {
    return fmt::format("upstream runs {} as {} with {}", show(call.identity), call.attempt, status);
  });
  if (policy.retryable_statuses.contains(status) || policy.released_statuses.contains(status)) {
    coverage_.count("run without result");
    return;
  }
  const int runs = ++runs_[call.identity];
  if (runs > 1 && policy.on_lease_expired != protocol::LeaseExpired::Retry) {
    fail(fmt::format("{} ran {} times in one life", show(call.identity), runs));
  } else if (runs > 1) {
    coverage_.count("second run under RETRY");
  }
}

void World::seeAnswer(Request& request) {
  Call* call = callOf(request);
  if (call == nullptr || call->phase != Call::Phase::Executed) {
    return;
  }
  finish(request,
         {.via_upstream = true,
          .complete = !chance(10),  // Else truncated.
          .details = chance(20) ? "downstream_remote_disconnect" : "via_upstream",
          .flags = 0,
          .attempts = 1},
         call);
}

// A time-out, a reset, a client that leaves: the call may or may not have run, and may still run.
void World::seeLoss(Request& request) {
  static constexpr const char* Details[] = {"response_timeout", "downstream_remote_disconnect",
                                            "stream_idle_timeout", "never_seen_before"};
  finish(request, {.details = Details[pick(std::size(Details))], .attempts = 1}, nullptr);
}

void World::seeRefusal(Request& request) {
  Call* call = callOf(request);
  if (call == nullptr || call->phase != Call::Phase::InFlight) {
    return;
  }
  call->phase = Call::Phase::Dropped;
  finish(request, {.details = Refused, .attempts = 1}, nullptr);
}

// Envoy retried by itself: the last attempt was refused, what became of the first is not told.
void World::seeRefusalAfterRetry(Request& request) {
  const uint64_t attempts = mutant_ == Mutant::RetriesAreForgotten ? 1 : 2;
  finish(request, {.details = Refused, .attempts = attempts}, nullptr);
}

// The stream is over, or its response has come: the record is to be written.
void World::finish(Request& request, protocol::Observation seen, const Call* call) {
  const protocol::Policy& policy = policyOf(request.identity);
  const int status = call == nullptr ? 0 : call->response.status;
  seen.status = status;
  seen.judged_status = status;
  seen.body_bytes = 1;
  protocol::AttemptEnding ending = protocol::judgeOutcome(policy, seen);
  if (mutant_ == Mutant::UnknownIsReleased && ending.kind == protocol::EndingKind::Unknown) {
    ending.kind = protocol::EndingKind::Released;
  }
  writes_.push_back({request.identity, request.attempt, ending,
                     call == nullptr ? std::nullopt : std::optional(call->response), status});
  note([&] {
    return fmt::format("request {} is over: {} attempts {}", request.id, seen.details,
                       seen.attempts);
  });
  request.phase = Request::Phase::Gone;
}

void World::leaveWhileHolding(Request& request) {
  // Nothing was sent: the claim is withdrawn.
  writes_.push_back({request.identity, request.attempt, {protocol::EndingKind::Released}, {}, 0});
  note([&] { return fmt::format("request {} leaves while it holds its claim", request.id); });
  request.phase = Request::Phase::Gone;
}

// The process is gone: no write follows. A claim in flight is gone with it, but for what the store
// has.
void World::crash(Request& request) {
  note([&] { return fmt::format("request {} dies", request.id); });
  coverage_.count("crash");
  request.phase = Request::Phase::Gone;
}

void World::deliverWrite() {
  if (writes_.empty()) {
    return;
  }
  const auto write = writes_.begin() + pick(static_cast<int>(writes_.size()));
  const auto record = store_.records().find(write->identity);
  if (record != store_.records().end() && record->second.attempt != write->attempt) {
    coverage_.count("write of a stale attempt");
  }
  note([&] {
    return fmt::format("write {} of {}", static_cast<int>(write->ending.kind), write->attempt);
  });
  store_.write(write->identity, write->attempt, write->ending, write->response, write->status);
  if (!chance(10)) {  // Else it will come a second time.
    writes_.erase(write);
  }
}

void World::duplicateOrLoseWrite() {
  if (!writes_.empty()) {
    coverage_.count("write lost");
    writes_.erase(writes_.begin() + pick(static_cast<int>(writes_.size())));
  }
}

void World::heartbeat() {
  for (const Request& request : requests_) {
    if (request.phase == Request::Phase::Holding || request.phase == Request::Phase::Sent) {
      store_.extend(request.identity, request.attempt);
    }
  }
}

// Whether the record's attempt may reach the upstream later.
bool World::mayStillRun(const ModelRecord& record) const {
  return std::any_of(calls_.begin(), calls_.end(),
                     [&](const Call& call) {
                       return call.attempt == record.attempt && call.phase == Call::Phase::InFlight;
                     }) ||
         std::any_of(requests_.begin(), requests_.end(), [&](const Request& request) {
           return request.attempt == record.attempt && request.phase == Request::Phase::Holding;
         });
}

// Asks the upstream about every unknown outcome; it tells the truth, or that it cannot tell yet.
void World::reconcile() {
  const auto snapshot = store_.records();
  for (const auto& [identity, record] : snapshot) {
    if (record.state != protocol::RecordState::Unknown || mayStillRun(record)) {
      continue;
    }
    const protocol::Policy& policy = policyOf(identity);
    const auto call = std::find_if(calls_.begin(), calls_.end(), [&](const Call& call) {
      return call.attempt == record.attempt && call.phase == Call::Phase::Executed &&
             !policy.retryable_statuses.contains(call.response.status) &&
             !policy.released_statuses.contains(call.response.status);
    });
    if (call != calls_.end()) {
      coverage_.count("reconciled as completed");
      store_.resolveCompleted(identity, call->response);
    } else {
      coverage_.count("reconciled as failed");
      store_.resolveFailed(identity);
    }
  }
}

std::optional<std::string> World::comeToRest() {
  using enum Request::Phase;
  const auto settle = [&] {
    while (!writes_.empty() && !violation_) {
      deliverWrite();
      checkChanges();
    }
  };
  for (size_t i = 0; i < requests_.size() && !violation_; ++i) {
    Request& request = requests_[i];
    if (request.phase == Holding) {
      leaveWhileHolding(request);
    } else if (request.phase == Sent) {
      seeLoss(request);
    } else {
      request.phase = Gone;
    }
  }
  settle();
  for (Call& call : calls_) {
    if (call.phase == Call::Phase::InFlight && !violation_) {
      execute(call);
    }
  }
  store_.now += Lease + 1;
  store_.sweep();
  reconcile();
  checkChanges();
  for (const auto& [identity, record] : store_.records()) {
    if (record.state == protocol::RecordState::InProgress ||
        record.state == protocol::RecordState::Unknown) {
      fail(fmt::format("{} stays {}", show(identity), idempotency::name(record.state)));
    }
  }
  return violation_;
}

// --- The checker
// ------------------------------------------------------------------------------------------

void World::checkChanges() {
  for (const Change& change : store_.takeChanges()) {
    note([&] {
      return fmt::format("  {} {}: {} -> {}", show(change.identity), name(change.event),
                         show(change.before), show(change.after));
    });
    coverage_.count("event ", name(change.event));
    if (!isLegal(change)) {
      fail(fmt::format("{} must not {}: {} -> {}", show(change.identity), name(change.event),
                       show(change.before), show(change.after)));
    }
    const bool late = change.event == RecordEvent::Complete && change.before.has_value() &&
                      change.before->state == protocol::RecordState::Unknown;
    if (late) {
      coverage_.count("late completion");
      if (change.after->expires_at <= store_.now) {
        fail(fmt::format("{} is over as soon as it is settled", show(change.identity)));
      }
    }
    if (change.writer != 0 &&
        (!change.before.has_value() || change.before->attempt != change.writer ||
         (change.before->state != protocol::RecordState::InProgress && !late))) {
      fail(fmt::format("attempt {} changed {} of attempt {}", change.writer, show(change.identity),
                       change.before ? change.before->attempt : 0));
    }
    // Only a record that is settled and past its life ends a life. What is still on its way to the
    // upstream from then is older than any promise.
    const bool over = change.before.has_value() && change.before->expires_at <= store_.now &&
                      change.before->state != protocol::RecordState::InProgress &&
                      change.before->state != protocol::RecordState::Unknown;
    const bool new_life =
        over && (change.event == RecordEvent::Reclaim || change.event == RecordEvent::Delete ||
                 change.event == RecordEvent::Expire);
    if (new_life) {
      coverage_.count("new life");
      runs_[change.identity] = 0;
      for (Call& call : calls_) {
        if (call.identity == change.identity && call.phase == Call::Phase::InFlight) {
          call.phase = Call::Phase::Dropped;
        }
      }
      for (Request& request : requests_) {
        if (change.before->attempt == request.attempt) {
          request.phase = Request::Phase::Gone;
        }
      }
    }
  }
}

protocol::RecordFacts World::factsOf(const ModelRecord& record, const Request& request) const {
  protocol::RecordFacts facts{
      .state = record.state,
      .match = record.body == request.body || mutant_ == Mutant::FingerprintIsIgnored
                   ? protocol::FingerprintMatch::Same
                   : protocol::FingerprintMatch::Different,
      .attempt = record.attempt,
      .lease_alive = record.lease_until > store_.now,
      .on_lease_expired = mutant_ == Mutant::DeadLeaseIsRetried ? protocol::LeaseExpired::Retry
                                                                : record.on_lease_expired,
      .past_life = record.expires_at <= store_.now,
      .claim_age = std::chrono::milliseconds(store_.now - (record.expires_at - Ttl)),
      .has_response = record.response.has_value(),
      .status = record.status,
  };
  if (mutant_ == Mutant::UnknownIsRetryable && record.state == protocol::RecordState::Unknown) {
    facts.state = protocol::RecordState::FailedRetryable;
  }
  return facts;
}

const protocol::Policy& World::policyOf(const protocol::Identity& identity) const {
  return policies_.at(identity.operation);
}

World::Call* World::callOf(const Request& request) {
  for (Call& call : calls_) {
    if (call.request == request.id && call.attempt == request.attempt) {
      return &call;
    }
  }
  return nullptr;
}

World::Request* World::pickRequest(std::initializer_list<Request::Phase> phases) {
  std::vector<Request*> found;
  for (Request& request : requests_) {
    if (std::find(phases.begin(), phases.end(), request.phase) != phases.end()) {
      found.push_back(&request);
    }
  }
  return found.empty() ? nullptr : found[static_cast<size_t>(pick(static_cast<int>(found.size())))];
}

World::Call* World::pickCall(Call::Phase phase) {
  std::vector<Call*> found;
  for (Call& call : calls_) {
    if (call.phase == phase) {
      found.push_back(&call);
    }
  }
  return found.empty() ? nullptr : found[static_cast<size_t>(pick(static_cast<int>(found.size())))];
}

void World::fail(const std::string& what) {
  if (!violation_.has_value()) {
    violation_ = what;
  }
}

}  // namespace idempotency::model
