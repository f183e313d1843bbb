#include "source/filter/backend.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <mutex>
#include <random>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "source/envoy/process.h"
#include "source/filter/key_hash.h"
#include "source/filter/maintenance_log.h"
#include "source/protocol/overloaded.h"
#include "source/protocol/stored_response.h"

namespace idempotency {
namespace {

constexpr std::chrono::seconds LogInterval{10};
constexpr std::chrono::seconds GaugeInterval{1};

// Names this process among all that use a store.
std::string ownerName() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("{}/{}/{:x}", host.data(), getpid(), newAttempt());
}

std::function<double()> randomFractions() {
  return [generator = std::mt19937_64(std::random_device{}())]() mutable {
    return std::uniform_real_distribution<double>(0, 1)(generator);
  };
}

// Shows now and then what has no event of its own.
class GaugeTask : public TimedTask {
public:
  explicit GaugeTask(std::function<void()> show) : show_(std::move(show)) {}
  Deadline onTime(Deadline now) override {
    show_();
    return now + GaugeInterval;
  }

private:
  const std::function<void()> show_;
};

envoy::Counter Stats::*counterFor(const Ending& ending) {
  return std::visit(Overloaded{
                        [](const UnknownRequest&) { return &Stats::ended_unknown; },
                        [](const CompleteRequest& complete) {
                          return complete.tombstone == Tombstone::None ? &Stats::ended_completed
                                                                       : &Stats::ended_tombstone;
                        },
                        [](const FailRequest&) { return &Stats::ended_failed_retryable; },
                        [](const ReleaseRequest&) { return &Stats::ended_released; },
                    },
                    ending);
}

// Waits, on threads of their own, for backends that died on a worker. Joined by the next backend
// that dies on the main thread, at the latest at the end of the process.
class Undertaker {
public:
  ~Undertaker() { join(); }
  void take(std::thread thread) {
    const std::lock_guard lock(mutex_);
    threads_.push_back(std::move(thread));
  }
  void join() {
    std::vector<std::thread> threads;
    {
      const std::lock_guard lock(mutex_);
      threads.swap(threads_);
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }

private:
  std::mutex mutex_;
  std::vector<std::thread> threads_;  // Guarded by mutex_.
};

Undertaker& undertaker() {
  static Undertaker instance;
  return instance;
}

}  // namespace

std::shared_ptr<const CompletedRecord> completedRecord(const Record& record, Deadline asked,
                                                       std::string key_hash) {
  if (record.state != RecordState::Completed || !record.response.has_value()) {
    return nullptr;
  }
  absl::StatusOr<StoredResponse> response = parseResponse(*record.response);
  if (!response.ok()) {
    envoy::log(envoy::LogLevel::Error,
               fmt::format("idempotency: a stored response is unreadable: {}",
                           std::string(response.status().message())));
    return nullptr;
  }
  auto completed = std::make_shared<CompletedRecord>();
  completed->fingerprint = record.fingerprint;
  completed->attempt = record.attempt;
  completed->expires_at = record.expires_at;
  completed->live_until = asked + record.life_left;
  completed->response = *std::move(response);
  completed->key_hash = std::move(key_hash);
  return completed;
}

absl::StatusOr<std::shared_ptr<Backend>> Backend::obtain(const BackendSettings& settings) {
  // Main thread only, as the function itself.
  static std::vector<std::weak_ptr<Backend>> known;
  std::erase_if(known, [](const std::weak_ptr<Backend>& backend) { return backend.expired(); });
  for (const std::weak_ptr<Backend>& candidate : known) {
    std::shared_ptr<Backend> backend = candidate.lock();
    if (backend != nullptr && backend->settings_ == settings) {
      return backend;
    }
  }
  absl::StatusOr<OpenedStore> opened = openStore(settings.store, settings.limits);
  if (!opened.ok()) {
    return opened.status();
  }
  const std::thread::id main_thread = std::this_thread::get_id();
  std::shared_ptr<Backend> backend(new Backend(settings, *std::move(opened)),
                                   [main_thread](Backend* last) { retire(last, main_thread); });
  known.push_back(backend);
  return backend;
}

void Backend::retire(Backend* backend, std::thread::id main_thread) {
  if (std::this_thread::get_id() == main_thread) {
    delete backend;
    undertaker().join();
  } else {
    undertaker().take(std::thread([backend] { delete backend; }));
  }
}

Backend::Backend(BackendSettings settings, OpenedStore opened)
    : settings_(std::move(settings)),
      cache_(settings_.replay_cache),
      key_rate_(settings_.limits.tenant_key_rate),
      store_errors_(LogInterval),
      fail_opens_(LogInterval),
      opened_(std::move(opened)) {
  const auto observer =
      std::make_shared<MaintenanceLog>(stats_, settings_.reconcile_after.has_value());
  settler_ = std::make_shared<Settler>(*opened_.store, timeoutOf(settings_.store),
                                       settings_.limits.queue_bytes);
  waiters_ = std::make_shared<Waiters>(
      *opened_.store, [this](const Identity& identity, const Record& record, Deadline asked) {
        onRecordPolled(identity, record, asked);
      });
  redirects_ = std::make_shared<Redirects>([this](const HeldClaim& claim) {
    settle(claim, UnknownRequest{claim.ref, "redirect_lost", settings_.reconcile_after}, nullptr,
           nullptr);
  });
  heartbeat_ = Heartbeat::create(*opened_.store, observer);
  std::vector<std::shared_ptr<TimedTask>> tasks = {heartbeat_, settler_, waiters_, redirects_};
  tasks.push_back(std::make_shared<GaugeTask>([this] { showStatus(); }));
  if (settings_.maintenance.enabled) {
    MaintainerOptions options;
    options.settings = settings_.maintenance;
    options.owner = ownerName();
    options.reconcile_after = settings_.reconcile_after;
    maintainer_ =
        Maintainer::create(*opened_.maintenance, std::move(options), observer, randomFractions());
    tasks.push_back(maintainer_);
  }
  timer_ = std::make_unique<TimerThread>(std::move(tasks));
}

Backend::~Backend() {
  timer_.reset();  // From now on nobody has an idea of his own,
  if (maintainer_ != nullptr) {
    maintainer_->stop();  // but for giving up the lead.
  }
  redirects_->onTime(Deadline::max());  // Nobody will come for them: their outcome is written, too.
  // Writes what is under way, and answers everything: to the rest, which is still there.
  opened_.store.reset();
}

bool Backend::enter(Entry entry) {
  const uint32_t before = in_flight_.fetch_add(1, std::memory_order_relaxed);
  if (before < settings_.limits.in_flight || entry == Entry::Unbounded) {
    return true;
  }
  leave();
  return false;
}

void Backend::keepAlive(const HeldClaim& claim) {
  // Whoever loses his claim learns it when he settles.
  heartbeat_->add(claim.ref, claim.policy->lease, claim.asked, [] {});
}

void Backend::settle(const HeldClaim& claim, Ending ending,
                     std::shared_ptr<const CompletedRecord> completed,
                     std::function<void(Settled, const std::string&)> report) {
  const Deadline now = std::chrono::steady_clock::now();
  SettleRequest request;
  request.report_by = now + claim.policy->completion_timeout;
  request.until = now + claim.policy->lease;
  request.report = [this, report = std::move(report)](Settled settled, const std::string& reason) {
    onReport(settled, reason);
    if (report != nullptr) {
      report(settled, reason);
    }
  };
  request.on_done = [this, identity = claim.ref.identity, counter = counterFor(ending),
                     completed = std::move(completed)] {
    stats_.count(counter);
    if (completed != nullptr) {
      cache_.insert(identity, completed, std::chrono::steady_clock::now());
    }
    waiters_->wakeAll(identity);
  };
  request.on_over = [heartbeat = heartbeat_, attempt = claim.ref.attempt] {
    heartbeat->remove(attempt);
  };
  request.ending = std::move(ending);
  settler_->settle(std::move(request), now);
}

void Backend::showStatus() {
  const StoreStatus status = opened_.store->status();
  stats_.set(&Stats::store_queued, status.queued);
  stats_.set(&Stats::store_queued_bytes, status.queued_bytes);
  stats_.set(&Stats::store_refuses, status.refuses ? 1 : 0);
  stats_.count(&Stats::store_batches, status.batches - shown_.batches);
  stats_.count(&Stats::store_operations, status.operations - shown_.operations);
  shown_ = status;
  stats_.onInterval();
  stats_.set(&Stats::waiting, waiters_->size());
  stats_.set(&Stats::settling, settler_->size());
  stats_.set(&Stats::cache_bytes, cache_.bytes());
  stats_.set(&Stats::cache_entries, cache_.entries());
}

void Backend::onReport(Settled settled, const std::string& reason) {
  switch (settled) {
    case Settled::Done:
      return;
    case Settled::Fenced:
      return stats_.count(&Stats::zombie_key);
    case Settled::NotYet:
    case Settled::Never:
      return onStoreError("the end of a request was not stored", reason);
  }
}

void Backend::onStoreError(std::string_view what, std::string_view reason) {
  stats_.count(&Stats::store_error);
  if (const auto kept_back = store_errors_.admit(std::chrono::steady_clock::now())) {
    envoy::log(
        envoy::LogLevel::Warn,
        fmt::format("idempotency: {}: {} ({} more since the last line)", what, reason, *kept_back));
  }
}

void Backend::onFailOpen() {
  if (const auto kept_back = fail_opens_.admit(std::chrono::steady_clock::now())) {
    envoy::log(
        envoy::LogLevel::Warn,
        fmt::format("idempotency: a request runs unprotected, since the store failed and its "
                    "route says FAIL_OPEN ({} more since the last line)",
                    *kept_back));
  }
}

void Backend::onRecordPolled(const Identity& identity, const Record& record, Deadline asked) {
  if (auto completed = completedRecord(record, asked, keyHash(identity))) {
    cache_.insert(identity, std::move(completed), std::chrono::steady_clock::now());
  }
}

}  // namespace idempotency
