#include "test/fuzz/filter/ledger.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <utility>

#include "source/message/stored_response.h"
#include "test/support/transitions.h"

namespace idempotency::fuzz {
namespace {

using End = test::ExecutionLog::End;

std::string_view stateName(const store::Record* record) {
  return record == nullptr ? "absent" : idempotency::name(record->state);
}

const store::Record* pointer(const std::optional<store::Record>& record) {
  return record.has_value() ? &*record : nullptr;
}

std::string fieldOf(const protocol::FieldList& fields, std::string_view name) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const auto& field) { return field.first == name; });
  return found == fields.end() ? "" : found->second;
}

}  // namespace

void violated(const std::string& what) {
  std::fprintf(stderr, "does not hold: %s\n", what.c_str());
  std::abort();
}

Ledger::Ledger(const test::FakeDatabase& database) : database_(database) {
  for (size_t key = 0; key < KeyCount; ++key) {
    histories_[{Tenant, Operation, keyName(key)}];
  }
  log_.excuseWhere([this](const std::string& life) { return excused_.contains(life); });
}

// --- Claims

const Claimant* Ledger::actsFor(const Claimant* who) {
  return std::exchange(acting_, who);
}

void Ledger::onAttempt(protocol::Attempt attempt) {
  if (acting_ != nullptr) {
    runs_[attempt].who = *acting_;
  }
}

std::string Ledger::lifeName(const Run& run) {
  return fmt::format("{} in life {}", run.who.identity.key, run.life);
}

void Ledger::begins(protocol::Attempt attempt, uint64_t exchange) {
  const auto found = runs_.find(attempt);
  if (found == runs_.end() || !found->second.claimed) {
    violated(fmt::format("request {} goes on without a durable claim", exchange));
  }
  Run& run = found->second;
  if (run.who.exchange != exchange || run.truth != Truth::NotBegun) {
    violated(fmt::format("request {} goes on under the claim of another", exchange));
  }
  if (run.over) {
    beginsTooLate(run, exchange);
  }
  run.truth = Truth::Running;
  run.execution = log_.begin(lifeName(run), run.who.request.body);
  if (const auto violations = log_.violations(); !violations.empty()) {
    violated(violations.front());
  }
}

// What was written of it as of one that never began does not hold any more.
void Ledger::beginsTooLate(Run& run, uint64_t exchange) {
  if (!jumped_) {
    violated(fmt::format("request {} goes on after its claim is over", exchange));
  }
  run.settled = false;
  run.lost = true;
  if (run.who.route->retries_lease) {
    excuse(run);
  }
}

void Ledger::goesOn(protocol::Attempt attempt, uint64_t exchange) {
  Run& run = runs_.at(attempt);
  run.who.exchange = exchange;
  run.sent_on = true;
}

void Ledger::ends(protocol::Attempt attempt, Truth truth, std::optional<WholeAnswer> answer) {
  Run& run = runs_.at(attempt);
  run.truth = run.sent_on && truth == Truth::NeverSent ? Truth::Lost : truth;
  run.answer = std::move(answer);
  if (run.sent_on && run.answer.has_value()) {
    run.answer->sent_before = true;
  }
  log_.end(lifeName(run), run.execution, verdictsOf(run).frees() ? End::Retryable : End::Final);
}

// --- Records

std::optional<store::Record> Ledger::find(const protocol::Identity& identity) const {
  store::LookUpResult result = database_.lookUp(identity);
  auto* const found = std::get_if<store::Record>(&result);
  return found == nullptr ? std::nullopt : std::optional(std::move(*found));
}

void Ledger::look() {
  ++looks_;
  for (auto& [identity, history] : histories_) {
    std::optional<store::Record> now = find(identity);
    compare(identity, history, now);
    if (now.has_value()) {
      note(history, *now);
    }
    history.seen = std::move(now);
  }
}

void Ledger::note(History& history, const store::Record& now) const {
  history.held_by[now.attempt] = looks_;
  if (now.past_life) {
    history.past_life = looks_;
  }
  switch (now.state) {
    case protocol::RecordState::InProgress:
      (now.lease_alive ? history.in_progress : history.unknown) = looks_;
      return;
    case protocol::RecordState::Unknown:
      history.unknown = looks_;
      return;
    case protocol::RecordState::Completed:
      if (!now.response.has_value()) {
        history.without_response = looks_;
      }
      return;
    case protocol::RecordState::FailedRetryable:
    case protocol::RecordState::Expired:
      return;
  }
}

void Ledger::compare(const protocol::Identity& identity, History& history,
                     const std::optional<store::Record>& now) {
  const std::optional<store::Record>& before = history.seen;
  if (now.has_value() && (!before.has_value() || before->attempt != now->attempt)) {
    const auto run = runs_.find(now->attempt);
    if (run == runs_.end() || run->second.who.identity != identity || run->second.claimed) {
      violated(fmt::format("{} has an attempt that nobody asked for", identity.key));
    }
    onClaimed(history, *now);
    if (now->state != protocol::RecordState::InProgress) {  // Claimed and ended in one step.
      onEnded(history, run->second, true, &*now);
    }
  } else if (before.has_value() && (!now.has_value() || before->state != now->state)) {
    onMoved(history, *before, pointer(now));
  }
}

void Ledger::onClaimed(History& history, const store::Record& now) {
  Run& run = runs_.at(now.attempt);
  if (history.seen.has_value()) {
    checkReclaim(run, *history.seen);
  }
  const store::StoreTime time = database_.now();
  if (now.expires_at != time + Life) {
    violated("a claim does not live as long as its policy says");
  }
  if (time >= history.life_ends) {
    ++history.life;
  }
  history.life_ends = now.expires_at;
  history.claims.push_back(now.attempt);
  run.claimed = true;
  run.life = history.life;
  run.expires_at = now.expires_at;
}

void Ledger::checkReclaim(const Run& run, const store::Record& before) {
  Run& earlier = runs_.at(before.attempt);
  const std::string& key = run.who.identity.key;
  const bool same = sameRequest(run.who.request, earlier.who.request);
  const bool past_life = before.expires_at <= database_.now();
  switch (before.state) {
    case protocol::RecordState::Unknown:
      violated(fmt::format("{} is claimed although its outcome is unknown", key));
    case protocol::RecordState::Completed:
    case protocol::RecordState::Expired:
      if (!past_life || run.who.route->gone) {
        violated(fmt::format("{} is claimed although it is completed", key));
      }
      break;
    case protocol::RecordState::FailedRetryable:
      if (!past_life && !same) {
        violated(fmt::format("{} is claimed by another request", key));
      }
      break;
    case protocol::RecordState::InProgress:
      // Routes share an operation: the earlier request may have come by another one.
      if (before.lease_alive || !earlier.who.route->retries_lease ||
          !run.who.route->retries_lease || !same) {
        violated(fmt::format("{} is claimed although another request holds it", key));
      }
      earlier.over = true;
      earlier.lost = true;
      excuse(earlier);
      break;
  }
}

void Ledger::onMoved(History& history, const store::Record& before, const store::Record* now) {
  const bool past_life = before.expires_at <= database_.now();
  switch (before.state) {
    case protocol::RecordState::InProgress:
      return onEnded(history, runs_.at(before.attempt), before.lease_alive, now);
    case protocol::RecordState::Completed:
    case protocol::RecordState::FailedRetryable:
      if (past_life && (now == nullptr || now->state == protocol::RecordState::Expired)) {
        return;
      }
      break;
    case protocol::RecordState::Unknown:  // Time does not settle it, only the attempt's own result
                                          // does.
      if (now != nullptr && now->state == protocol::RecordState::Completed) {
        return onSettledLate(history, runs_.at(before.attempt), *now);
      }
      break;
    case protocol::RecordState::Expired:
      if (now == nullptr) {
        return;
      }
      break;
  }
  violated(
      fmt::format("a record went from {} to {}", idempotency::name(before.state), stateName(now)));
}

// The attempt is over: what is written must be what happened, unless its lease ran out.
void Ledger::onEnded(History& history, Run& run, bool lease_alive, const store::Record* now) {
  run.over = true;
  const Verdicts may = verdictsOf(run);
  if (now == nullptr) {
    run.settled = may.release;
  } else if (now->state == protocol::RecordState::FailedRetryable) {
    run.settled = may.frees();
    run.lost = !run.settled && !lease_alive && run.who.route->retries_lease;
    if (run.lost) {
      excuse(run);
    }
  } else if (now->state == protocol::RecordState::Unknown) {
    run.settled = may.unknown;
    run.lost = !run.settled && !lease_alive;
  } else if (now->state == protocol::RecordState::Completed) {
    run.settled = may.completion;
    if (run.expires_at <= database_.now()) {
      onRenewed(history, run, *now);
    }
    checkCompleted(history, run, *now);
  }
  if (!run.settled && !run.lost) {
    violated(fmt::format("{}: a claim ends as {}, and the attempt is {}", run.who.identity.key,
                         stateName(now), name(run.truth)));
  }
}

// The attempt was taken for dead, and its result came after all.
void Ledger::onSettledLate(History& history, Run& run, const store::Record& now) {
  if (!verdictsOf(run).completion) {
    violated(fmt::format("{}: an unknown outcome becomes a result, and the attempt is {}",
                         run.who.identity.key, name(run.truth)));
  }
  run.settled = true;
  run.lost = false;
  onRenewed(history, run, now);
  checkCompleted(history, run, now);
}

void Ledger::onRenewed(History& history, Run& run, const store::Record& now) const {
  if (now.expires_at != database_.now() + Life) {
    violated("a record that is settled late does not live from then on");
  }
  run.expires_at = now.expires_at;
  history.life_ends = now.expires_at;
}

void Ledger::checkCompleted(History& history, Run& run, const store::Record& now) {
  if (!run.settled) {
    return;
  }
  if (now.tombstone != run.answer->tombstone || now.status != run.answer->response.status) {
    violated(fmt::format("{}: stored with tombstone {} and status {}, not {} and {}",
                         run.who.identity.key, static_cast<int>(now.tombstone), now.status,
                         static_cast<int>(run.answer->tombstone), run.answer->response.status));
  }
  if (now.tombstone != protocol::Tombstone::None) {
    return;
  }
  const auto response = message::parseResponse(now.response.value_or(""));
  if (!response.ok() || *response != run.answer->response) {
    violated(fmt::format("{}: what is stored is not what was answered", run.who.identity.key));
  }
  history.stored.push_back(now.attempt);
}

// --- What clients get

namespace {

bool isOurs(std::string_view name) {
  return name == ":status" || name == "content-length" || name == "idempotent-replayed" ||
         name == "idempotency-key-expires" || name == "access-control-expose-headers";
}

bool isReplayOf(const protocol::StoredResponse& stored, const fake::Reply& reply) {
  protocol::FieldList headers = reply.headers;
  std::erase_if(headers, [](const auto& field) { return isOurs(field.first); });
  const bool bodiless = stored.status == 204;
  const std::string length = fieldOf(reply.headers, "content-length");
  return static_cast<int>(reply.code) == stored.status && headers == stored.headers &&
         reply.body == (bodiless ? "" : stored.body) &&
         reply.trailers == (bodiless ? protocol::FieldList() : stored.trailers) &&
         (length.empty() || length == std::to_string(reply.body.size())) &&
         fieldOf(reply.headers, "idempotent-replayed") == "true";
}

}  // namespace

void Ledger::checkReplay(const Claimant& who, const fake::Reply& reply) {
  History& history = histories_.at(who.identity);
  const auto& stored = history.stored;
  const auto found = std::find_if(stored.begin(), stored.end(), [&](protocol::Attempt attempt) {
    return isReplayOf(runs_.at(attempt).answer->response, reply);
  });
  if (found == stored.end()) {
    violated(fmt::format("request {} gets a replay of what is not stored", who.exchange));
  }
  const Run& run = runs_.at(*found);
  if (!sameRequest(run.who.request, who.request)) {
    violated(fmt::format("request {} gets the replay of another request", who.exchange));
  }
  const auto place = static_cast<size_t>(found - stored.begin());
  if (!jumped_ && (run.expires_at <= who.came_at || place < history.replayed)) {
    violated(fmt::format("request {} gets a replay past its life", who.exchange));
  }
  history.replayed = std::max(history.replayed, place);
}

bool Ledger::isSettled(protocol::Attempt attempt) const {
  const Run& run = runs_.at(attempt);
  const std::optional<store::Record>& record = histories_.at(run.who.identity).seen;
  if (run.settled || !record.has_value() || record->attempt != attempt) {
    return run.settled;
  }
  return (record->state == protocol::RecordState::Unknown && verdictsOf(run).unknown) ||
         (record->state == protocol::RecordState::FailedRetryable && verdictsOf(run).failure);
}

bool Ledger::hasReason(const Claimant& who, protocol::Problem problem) const {
  const History& history = histories_.at(who.identity);
  if (problem == protocol::Problem::KeyReused) {
    return std::any_of(history.held_by.begin(), history.held_by.end(), [&](const auto& entry) {
      const auto& [attempt, when] = entry;
      return when >= who.came && !sameRequest(runs_.at(attempt).who.request, who.request);
    });
  }
  if (problem == protocol::Problem::InProgress || problem == protocol::Problem::Accepted) {
    return history.in_progress >= who.came;
  }
  if (problem == protocol::Problem::OutcomeUnknown) {
    return history.unknown >= who.came;
  }
  if (problem == protocol::Problem::ResponseUnavailable) {
    return history.without_response >= who.came;
  }
  return problem == protocol::Problem::KeyExpired && history.past_life >= who.came &&
         who.route->gone;
}

// --- The end

void Ledger::checkLeases() const {
  for (const auto& [identity, history] : histories_) {
    const std::optional<store::Record>& record = history.seen;
    if (record.has_value() && record->state == protocol::RecordState::InProgress &&
        !record->lease_alive && runs_.at(record->attempt).truth == Truth::Running) {
      violated(fmt::format("{}: a lease runs out while its request runs", identity.key));
    }
  }
}

bool Ledger::hasClaim() const {
  return std::any_of(histories_.begin(), histories_.end(), [](const auto& entry) {
    const std::optional<store::Record>& record = entry.second.seen;
    return record.has_value() && record->state == protocol::RecordState::InProgress;
  });
}

bool Ledger::wasAsked(size_t key) const {
  return std::any_of(runs_.begin(), runs_.end(), [&](const auto& entry) {
    return entry.second.who.identity.key == keyName(key);
  });
}

bool Ledger::isFree(size_t key) const {
  const History& history = histories_.at({Tenant, Operation, keyName(key)});
  Run any;
  any.who.identity.key = keyName(key);
  any.life = history.life;
  // Whose lease ran out before it began is taken for one that may have run.
  const bool lost =
      std::any_of(history.claims.begin(), history.claims.end(), [&](protocol::Attempt attempt) {
        return runs_.at(attempt).lost && runs_.at(attempt).life == history.life;
      });
  // Where nothing ran, but the filter may not know that.
  const std::optional<store::Record>& record = history.seen;
  const bool unknown = record.has_value() && record->state == protocol::RecordState::Unknown &&
                       verdictsOf(runs_.at(record->attempt)).unknown;
  return !lost && !unknown && log_.isFree(lifeName(any));
}

}  // namespace idempotency::fuzz
