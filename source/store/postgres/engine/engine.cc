#include "source/store/postgres/engine/engine.h"

#include <algorithm>
#include <random>
#include <utility>

#include "source/store/postgres/operations/use_operation.h"
#include "source/store/postgres/operations/withdraw_operation.h"

namespace idempotency::postgres {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t InboxTag = UINT64_MAX;
constexpr milliseconds FirstReconnect{50};
constexpr milliseconds LongestReconnect{3000};
constexpr milliseconds LongestStop{5000};
// A few large batches cost this thread, the workers and the server less than many small ones. While
// operations are in progress, others wait until they are this many times as many, or enough in any
// case, or for this long. So a single operation does not wait, and under load one connection
// collects while others send.
constexpr size_t GatheredTimes = 2;
constexpr size_t EnoughGathered = 32;
constexpr std::chrono::microseconds LongestGathering{500};
// Limit for the store's own concurrent releases: requests come first.
constexpr size_t MostWithdrawn = 32;
constexpr char StopReason[] = "the store is shutting down";

std::function<double()> makeJitter() {
  return [engine = std::minstd_rand(std::random_device()())]() mutable {
    return std::uniform_real_distribution<double>(0, 1)(engine);
  };
}

}  // namespace

Engine::Engine(EngineSettings settings, std::shared_ptr<Inbox> inbox, TenantUse& use)
    : settings_(std::move(settings)),
      inbox_(std::move(inbox)),
      use_(use),
      queue_(settings_.batch),
      breaker_(settings_.breaker, makeJitter()),
      hears_(poller_.watch(inbox_->fd(), EPOLLIN | EPOLLET, InboxTag)) {
  ConnectionOwner& owner = *this;
  for (uint32_t i = 0; i < settings_.connections; ++i) {
    connections_.push_back(
        std::make_unique<Connection>(i, owner, poller_, settings_.connection,
                                     Backoff(FirstReconnect, LongestReconnect, makeJitter())));
  }
}

Engine::~Engine() = default;

void Engine::stop() {
  stopping_.store(true);
  inbox_->wake();
}

void Engine::run() {
  std::unique_lock lock(mutex_);
  while (!mayEnd()) {
    try {
      turn(lock);
    } catch (...) {
      broken_ = true;
    }
    if (std::exchange(broken_, false)) {
      // Probably out of memory. Operations in progress are in doubt; the others continue.
      for (const auto& connection : connections_) {
        connection->close("internal error");
      }
    }
  }
  end();
}

void Engine::turn(std::unique_lock<std::mutex>& lock) {
  takeMessages();
  now_ = std::chrono::steady_clock::now();
  keepDeadlines();
  for (const auto& connection : connections_) {
    connection->onTimer(now_);
  }
  withdrawOrphans();
  writeUse();
  dispatch();
  publishStats();
  const size_t patience = operationsWorthWaking();
  sleeps_until_ =
      std::min(nextTimer(), patience > 1 ? now_ + LongestGathering : now_ + longestSleep());
  const store::Deadline until = inbox_->fallAsleep(patience) ? sleeps_until_ : store::Deadline();
  lock.unlock();
  const auto events = poller_.wait(until);
  lock.lock();
  inbox_->wakeUp();
  // First, so that a claim that was abandoned before its result arrived is not reported as granted.
  takeMessages();
  for (const epoll_event& event : events) {
    if (event.data.u64 < connections_.size()) {
      connections_[event.data.u64]->onEvents(now_);
    }
  }
}

// --- On a caller's thread

bool Engine::maySendLone() const {
  return !stopping_.load() && breaker_.state() == Breaker::State::Closed && queue_.empty() &&
         underWay() == 0 && idleConnections() > 0;
}

bool Engine::sendLone() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || !maySendLone()) {
    return false;
  }
  try {
    now_ = std::chrono::steady_clock::now();
    OperationPtr lone = inbox_->takeLone(now_);
    if (lone == nullptr) {
      return false;
    }
    const bool deadline_is_kept = lone->deadline() > sleeps_until_;
    lone->onAccepted();
    queue_.push(std::move(lone));
    dispatch();
    publishStats();
    return deadline_is_kept && queue_.empty() && nextTimer() > now_ && inbox_->fallAsleep(1);
  } catch (...) {
    broken_ = true;
    return false;
  }
}

// A lone operation that a caller sends gets at least this long: the store's thread wakes before.
milliseconds Engine::longestSleep() const {
  return settings_.connection.timeout / 2;
}

// --- Messages

void Engine::takeMessages() {
  messages_.clear();
  inbox_->take(messages_);
  now_ = std::chrono::steady_clock::now();
  for (Message& message : messages_) {
    std::visit([this](auto& content) { onMessage(std::move(content)); }, message);
  }
  messages_.clear();
}

void Engine::onMessage(OperationPtr operation) {
  if (stop_by_ != store::Deadline::max()) {
    operation->onRefused(StopReason);
  } else if (operation->deadline() <= now_) {
    operation->onDeadline(false);
  } else if (!breaker_.admit(now_)) {
    operation->onRefused("circuit breaker open: " + breaker_.reason());
  } else {
    operation->onAccepted();
    queue_.push(std::move(operation));
  }
}

void Engine::onMessage(const Abandon& message) {
  const auto is_it = [&](Operation& operation) { return operation.abandon(message.claim); };
  if (const OperationPtr waiting = queue_.takeIf(is_it); waiting != nullptr) {
    waiting->onRefused("abandoned");
    breaker_.onNoVerdict();
    return;
  }
  for (const auto& connection : connections_) {
    for (const OperationPtr& operation : connection->batch().operations) {
      if (operation != nullptr && is_it(*operation)) {
        return;  // Its result decides.
      }
    }
  }
  orphans_.add({message.claim, true, milliseconds(0)}, now_);
}

void Engine::onMessage(const Resolution& resolution) {
  resolving_ = false;
  for (const auto& connection : connections_) {
    connection->onResolved(resolution, now_);
  }
}

void Engine::onMessage(const Task& task) {
  try {
    task();
  } catch (...) {
  }
}

// --- Deadlines

void Engine::keepDeadlines() {
  const std::vector<OperationPtr> expired = queue_.takeExpired(now_);
  for (const OperationPtr& operation : expired) {
    operation->onDeadline(false);
  }
  if (!expired.empty() && now_ - last_commit_ >= settings_.connection.timeout) {
    // They never got a connection, which counts as no response. But if other batches are being
    // committed, the load is merely too high, which is not an outage.
    breaker_.onFailure(now_, stats_.last_error.empty() ? "no free connection" : stats_.last_error);
  } else if (!expired.empty()) {
    breaker_.onNoVerdict();
  }
  if (now_ < next_flight_deadline_) {
    return;
  }
  next_flight_deadline_ = store::Deadline::max();
  for (const auto& connection : connections_) {
    for (const OperationPtr& operation : connection->batch().operations) {
      if (operation->finished()) {
        continue;
      }
      if (operation->deadline() <= now_) {
        operation->onDeadline(true);
      } else {
        next_flight_deadline_ = std::min(next_flight_deadline_, operation->deadline());
      }
    }
  }
}

// --- Sending

void Engine::withdrawOrphans() {
  if (!anyUp()) {
    return;
  }
  for (const store::ClaimRef& claim : orphans_.takeDue(now_, MostWithdrawn)) {
    queue_.push(std::make_unique<WithdrawOperation>(claim, now_ + settings_.connection.timeout,
                                                    use_,
                                                    [this, claim](std::optional<bool> removed) {
                                                      if (removed.has_value()) {
                                                        orphans_.onReleased(claim, *removed, now_);
                                                      } else {
                                                        orphans_.onFailed(claim, now_);
                                                      }
                                                    }));
  }
}

void Engine::writeUse() {
  if (now_ < use_.nextWrite() || !anyUp()) {
    return;
  }
  if (std::vector<TenantUse::Change> changes = use_.takeChanges(now_); !changes.empty()) {
    queue_.push(std::make_unique<UseOperation>(std::move(changes),
                                               now_ + settings_.connection.timeout, use_));
  }
}

size_t Engine::idleConnections() const {
  return static_cast<size_t>(std::count_if(
      connections_.begin(), connections_.end(),
      [](const auto& connection) { return connection->state() == Connection::State::Ready; }));
}

size_t Engine::underWay() const {
  size_t operations = 0;
  for (const auto& connection : connections_) {
    operations += connection->batch().operations.size();
  }
  return operations;
}

bool Engine::isWorthSending() const {
  return queue_.size() >= gatheringGoal() || now_ >= gathers_until_;
}

size_t Engine::gatheringGoal() const {
  return std::min(GatheredTimes * underWay(), EnoughGathered);
}

size_t Engine::operationsWorthWaking() const {
  const size_t wanted = gatheringGoal();
  return wanted > queue_.size() + 1 ? wanted - queue_.size() : 1;
}

void Engine::dispatch() {
  if (queue_.empty()) {
    gathers_until_ = store::Deadline::max();
    return;
  }
  if (gathers_until_ == store::Deadline::max()) {
    gathers_until_ = now_ + LongestGathering;
  }
  size_t idle = idleConnections();
  for (const auto& connection : connections_) {
    if (queue_.empty() || !isWorthSending()) {
      return;
    }
    if (connection->state() != Connection::State::Ready) {
      continue;
    }
    Batch batch = queue_.take(idle--);
    if (batch.empty()) {
      return;
    }
    ++stats_.batches;
    stats_.operations += batch.operations.size();
    for (const OperationPtr& operation : batch.operations) {
      next_flight_deadline_ = std::min(next_flight_deadline_, operation->deadline());
    }
    connection->send(std::move(batch), now_);
    gathers_until_ = store::Deadline::max();
  }
}

void Engine::onBatchEnd(Connection&, Batch batch, BatchEnd end) {
  if (end.kind != BatchEnd::Kind::Committed) {
    ++stats_.batches_failed;
    stats_.last_error = end.reason;
  }
  const std::string reason = end.reason;
  if (end.kind == BatchEnd::Kind::Committed) {
    ++stats_.batches_committed;
    last_commit_ = now_;
  }
  BatchVerdict verdict = conclude(std::move(batch), std::move(end));
  switch (verdict.health) {
    case BatchVerdict::Health::Good:
      breaker_.onSuccess();
      break;
    case BatchVerdict::Health::Timeout:
      breaker_.onTimeout(now_, verdict.tenant, reason);
      break;
    case BatchVerdict::Health::Outage:
      breaker_.onFailure(now_, reason);
      break;
    case BatchVerdict::Health::NoVerdict:
      breaker_.onNoVerdict();
      break;
  }
  for (const Operation::Orphan& orphan : verdict.orphans) {
    orphans_.add(orphan, now_);
  }
  for (auto again = verdict.send_again.rbegin(); again != verdict.send_again.rend(); ++again) {
    queue_.pushFront(std::move(*again));
  }
}

// --- Connections

void Engine::onWantsAddresses(Connection& connection) {
  const Conninfo& conninfo = settings_.connection.conninfo;
  if (settings_.password_file.empty() &&
      std::none_of(conninfo.hosts.begin(), conninfo.hosts.end(), needsLookUp)) {
    connection.onResolved({conninfo.hosts, std::string()}, now_);
    return;
  }
  if (!std::exchange(resolving_, true)) {
    // The inbox may outlive this store: a look-up cannot be called off.
    resolve(conninfo.hosts, settings_.password_file,
            [inbox = inbox_](Resolution resolution) { inbox->push(std::move(resolution)); });
  }
}

void Engine::onUp(Connection&) {
  ++stats_.connects;
  breaker_.onConnected();
}

void Engine::onDown(Connection&, const std::string& reason) {
  ++stats_.connections_lost;
  stats_.last_error = reason;
  // With others up, the database is not down.
  if (!anyUp()) {
    breaker_.onFailure(now_, reason);
  }
}

bool Engine::anyUp() const {
  return std::any_of(connections_.begin(), connections_.end(),
                     [](const auto& connection) { return connection->isUp(); });
}

store::Deadline Engine::nextTimer() const {
  store::Deadline next = std::min({queue_.nextDeadline(), next_flight_deadline_, stop_by_});
  if (!queue_.empty() && idleConnections() > 0) {
    next = std::min(next, gathers_until_);
  }
  if (anyUp()) {
    next = std::min({next, orphans_.nextDue(), use_.nextWrite()});
  }
  for (const auto& connection : connections_) {
    next = std::min(next, connection->timer());
  }
  return next;
}

// --- The end

bool Engine::mayEnd() {
  if (!stopping_.load()) {
    return false;
  }
  const store::MonotonicTime now = std::chrono::steady_clock::now();
  if (stop_by_ == store::Deadline::max()) {
    takeMessages();
    // Operations in progress and outcomes of attempts get some time; others are refused.
    stop_by_ = now + std::min(settings_.connection.timeout, LongestStop);
    for (OperationPtr& operation : queue_.takeAll()) {
      if (operation->isLastWord()) {
        queue_.push(std::move(operation));
      } else {
        operation->onRefused(StopReason);
      }
    }
  }
  if (now >= stop_by_) {
    return true;
  }
  now_ = now;
  use_.writeAtOnce(now);
  writeUse();
  const bool idle = std::all_of(connections_.begin(), connections_.end(), [](const auto& entry) {
    return entry->state() != Connection::State::Busy;
  });
  return idle && ((queue_.empty() && orphans_.size() == 0) || !anyUp());
}

void Engine::end() {
  for (const auto& connection : connections_) {
    connection->close(StopReason);
  }
  // Callbacks may call again, also from here.
  for (std::vector<Message> last;;) {
    for (const OperationPtr& operation : queue_.takeAll()) {
      operation->onRefused(StopReason);
    }
    inbox_->take(last);
    if (last.empty()) {
      return;
    }
    for (Message& message : std::exchange(last, {})) {
      std::visit([this](auto& content) { onMessage(std::move(content)); }, message);
    }
  }
}

void Engine::publishStats() {
  stats_.breaker = breaker_.state();
  stats_.orphans = orphans_.size();
  stats_.connections_up = static_cast<uint32_t>(
      std::count_if(connections_.begin(), connections_.end(),
                    [](const auto& connection) { return connection->isUp(); }));
  const std::lock_guard lock(stats_mutex_);
  published_ = stats_;
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(stats_mutex_);
  return published_;
}

}  // namespace idempotency::postgres
