#include "source/filter/backend/backend.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fstream>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "source/envoy/process.h"
#include "source/filter/backend/maintenance_log.h"
#include "source/filter/backend/reconcile_log.h"
#include "source/protocol/key_hash.h"
#include "source/protocol/outcome.h"
#include "source/protocol/overloaded.h"
#include "source/request/store_results.h"
#include "source/runtime/undertaker.h"
#include "source/store/open/open_operator_store.h"

namespace idempotency::filter {
namespace {

// The paths of private listeners that have taken over a run in this process. Any thread.
class StartedRuns {
public:
  void add(const std::string& path) {
    const std::lock_guard lock(mutex_);
    paths_.insert(path);
  }
  bool contains(const std::string& path) {
    const std::lock_guard lock(mutex_);
    return paths_.contains(path);
  }

private:
  std::mutex mutex_;
  std::set<std::string> paths_;  // Guarded by mutex_.
};

StartedRuns& startedRuns() {
  static auto* const started = new StartedRuns;  // Never destroyed: workers may still use it.
  return *started;
}

constexpr std::chrono::seconds LogInterval{10};
constexpr std::chrono::seconds GaugeInterval{1};
// Longer than most store outages. The bytes that wait in the meantime are limited.
constexpr std::chrono::milliseconds LatestCompletion = std::chrono::minutes(10);

absl::StatusOr<std::string> readPassword(const std::string& path) {
  constexpr size_t Longest = 4096;
  std::ifstream file(path, std::ios::binary);
  // An iterator would throw where this fails: on a directory, or on an I/O error.
  std::string password(Longest + 1, '\0');
  file.read(password.data(), static_cast<std::streamsize>(password.size()));
  password.resize(static_cast<size_t>(file.gcount()));
  if (!file.is_open() || file.bad() || password.size() > Longest) {
    return absl::UnavailableError("cannot read password_file");
  }
  while (!password.empty() && (password.back() == '\n' || password.back() == '\r')) {
    password.pop_back();
  }
  return password;
}

// Names this process among all that use a store.
std::string ownerName() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("{}/{}/{:x}", host.data(), getpid(), store::newAttempt());
}

std::function<double()> randomFractions() {
  return [generator = std::mt19937_64(std::random_device{}())]() mutable {
    return std::uniform_real_distribution<double>(0, 1)(generator);
  };
}

runtime::Moment rightNow() {
  return {std::chrono::steady_clock::now(), std::chrono::system_clock::now()};
}

// Updates the gauges at intervals.
class GaugeTask : public runtime::TimedTask {
public:
  explicit GaugeTask(std::function<void()> show) : show_(std::move(show)) {}
  store::Deadline onTime(store::MonotonicTime now) override {
    show_();
    return now + GaugeInterval;
  }

private:
  const std::function<void()> show_;
};

// The reconciler's own connection. Its time limit is short, because the end of a backend waits for
// the call in progress.
absl::StatusOr<std::unique_ptr<store::OperatorStore>> openForReconciler(
    const protocol::StoreSettings& settings) {
  constexpr std::chrono::milliseconds Timeout{2000};
  return std::visit(
      protocol::Overloaded{
          [&](const protocol::PostgresSettings& postgres)
              -> absl::StatusOr<std::unique_ptr<store::OperatorStore>> {
            store::PostgresAccess access{
                .conninfo = postgres.conninfo, .password = std::nullopt, .timeout = Timeout};
            if (!postgres.password_file.empty()) {
              absl::StatusOr<std::string> password = readPassword(postgres.password_file);
              if (!password.ok()) {
                return password.status();
              }
              access.password = *std::move(password);
            }
            return store::openOperatorStore(access);
          },
          [&](const protocol::SqliteSettings& sqlite)
              -> absl::StatusOr<std::unique_ptr<store::OperatorStore>> {
            return store::openOperatorStore(
                store::SqliteAccess{.path = sqlite.path, .timeout = Timeout});
          },
      },
      settings);
}

envoy::Counter Stats::*counterFor(const protocol::Ending& ending) {
  return std::visit(protocol::Overloaded{
                        [](const protocol::Unknown&) { return &Stats::ended_unknown; },
                        [](const protocol::Completed& completed) {
                          return completed.tombstone == protocol::Tombstone::None
                                     ? &Stats::ended_completed
                                     : &Stats::ended_tombstone;
                        },
                        [](const protocol::Failed&) { return &Stats::ended_failed_retryable; },
                        [](const protocol::Released&) { return &Stats::ended_released; },
                    },
                    ending);
}

// How long to try to write an ending. A known result is worth keeping beyond the lease, because it
// settles the record even if that has become unknown in the meantime. Other endings do not.
std::chrono::milliseconds patienceFor(const protocol::Ending& ending,
                                      std::chrono::milliseconds lease) {
  return std::holds_alternative<protocol::Completed>(ending) ? std::max(lease, LatestCompletion)
                                                             : lease;
}

// What an ending keeps in memory until it is written: the settler's and the store's copies of the
// stored bytes, and the response for replays.
uint64_t bytesToSettle(const protocol::Ending& ending, const runtime::CompletedRecord* completed) {
  return 2 * protocol::responseBytes(ending) +
         (completed == nullptr ? 0 : completed->response.body.size());
}

}  // namespace

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
  absl::StatusOr<store::OpenedStore> opened = store::openStore(settings.store, settings.limits);
  if (!opened.ok()) {
    return opened.status();
  }
  if (!opened->warning.empty()) {
    envoy::log(envoy::LogLevel::Warn, "idempotency: " + opened->warning);
  }
  const std::thread::id main_thread = std::this_thread::get_id();
  std::shared_ptr<Backend> backend(new Backend(settings, *std::move(opened)),
                                   [main_thread](Backend* last) { retire(last, main_thread); });
  known.push_back(backend);
  return backend;
}

void Backend::retire(Backend* backend, std::thread::id main_thread) {
  runtime::Undertaker::instance().bury([backend] { delete backend; }, main_thread);
}

Backend::Backend(BackendSettings settings, store::OpenedStore opened)
    : settings_(std::move(settings)),
      admission_(settings_.limits),
      cache_(settings_.replay_cache),
      key_rate_(settings_.limits.tenant_key_rate),
      outages_(LogInterval),
      fail_opens_(LogInterval),
      invalid_configs_(LogInterval),
      not_started_(LogInterval),
      opened_(std::move(opened)) {
  const auto observer = std::make_shared<MaintenanceLog>(stats_, [this](bool leads) {
    reconciler_->lead(leads);  // It is there if anyone can lead.
  });
  settler_ = std::make_shared<runtime::Settler>(
      *opened_.store, protocol::timeoutOf(settings_.store), settings_.limits.queue_bytes);
  waiters_ = std::make_shared<runtime::Waiters>(
      *opened_.store, [this](protocol::Attempt attempt) { return heartbeat_->holds(attempt); },
      [this](const protocol::Identity& identity, const store::Record& record,
             store::Deadline asked) { onRecordPolled(identity, record, asked); });
  redirects_ = std::make_shared<runtime::Redirects>([this](const runtime::HeldClaim& claim) {
    settle(claim,
           protocol::endingOfLost(*claim.policy, "redirect_lost",
                                  reconcileAfter(claim.ref.identity.operation)),
           nullptr, nullptr);
  });
  heartbeat_ = runtime::Heartbeat::create(*opened_.store, observer);
  alarms_ = std::make_shared<runtime::Alarms>();
  std::vector<std::shared_ptr<runtime::TimedTask>> tasks = {heartbeat_, settler_, waiters_,
                                                            redirects_, alarms_};
  tasks.push_back(std::make_shared<GaugeTask>([this] { showStatus(); }));
  if (settings_.maintenance.enabled) {
    startJobs(observer, tasks);
  }
  timer_ = std::make_unique<runtime::TimerThread>(std::move(tasks));
  if (settings_.private_listener.has_value()) {
    // The listener stays the same when the filter's config changes.
    has_started_runs_ = startedRuns().contains(settings_.private_listener->path);
    dialer_ = std::make_unique<runtime::RunDialer>(settings_.private_listener->path,
                                                   settings_.private_listener->max_runs);
  }
}

void Backend::startJobs(const std::shared_ptr<runtime::MaintenanceObserver>& observer,
                        std::vector<std::shared_ptr<runtime::TimedTask>>& tasks) {
  runtime::ReconcilerOptions reconciling;
  reconciling.entries = settings_.reconcile;
  reconciler_ = std::make_unique<runtime::Reconciler>(
      std::move(reconciling), [store = settings_.store] { return openForReconciler(store); },
      SharedAsker::ofProcess(), std::make_shared<ReconcileLog>(stats_), randomFractions());
  runtime::MaintainerOptions options;
  options.settings = settings_.maintenance;
  options.owner = ownerName();
  maintainer_ = runtime::Maintainer::create(*opened_.maintenance, std::move(options), observer,
                                            randomFractions());
  tasks.push_back(maintainer_);
}

Backend::~Backend() {
  // In the order that the class describes.
  dialer_.reset();
  timer_.reset();
  if (maintainer_ != nullptr) {
    reconciler_->stop();
    maintainer_->stop();
  }
  redirects_->onTime(
      store::Deadline::max());  // They will not be resumed, so their outcome is unknown.
  opened_.store.reset();
}

std::optional<std::chrono::milliseconds> Backend::reconcileAfter(
    const std::string& operation) const {
  const protocol::ReconcileSettings* const entry =
      protocol::entryFor(settings_.reconcile, operation);
  return entry == nullptr ? std::nullopt : std::optional(entry->interval);
}

void Backend::keepAlive(const runtime::HeldClaim& claim) {
  // The holder learns that it lost its claim when it settles. Requests that wait for it are woken
  // at once.
  heartbeat_->add(
      claim.ref, claim.policy->lease, claim.asked,
      [waiters = waiters_, identity = claim.ref.identity] { waiters->wakeAll(identity); });
}

void Backend::settle(const runtime::HeldClaim& claim, protocol::Ending ending,
                     std::shared_ptr<const runtime::CompletedRecord> completed,
                     runtime::OnSettled report) {
  const store::MonotonicTime now = std::chrono::steady_clock::now();
  runtime::SettleRequest request;
  request.claim = claim.ref;
  request.report_by = now + claim.policy->completion_timeout;
  request.until = now + patienceFor(ending, claim.policy->lease);
  request.report = [this, report = std::move(report)](const runtime::SettleReport& settled) {
    onReport(settled);
    if (report != nullptr) {
      report(settled);
    }
  };
  request.held = admission_.charge(bytesToSettle(ending, completed.get()));
  const auto identity = std::make_shared<const protocol::Identity>(claim.ref.identity);
  request.on_done = [this, identity, counter = counterFor(ending),
                     completed = std::move(completed)](bool certain) {
    stats_.count(counter);
    if (certain && completed != nullptr) {
      cache_.insert(*identity, completed, std::chrono::steady_clock::now());
    }
  };
  if (claim.ref.own_transaction) {
    request.on_completed_by_upstream = [this, identity](const store::Record& record,
                                                        store::Deadline asked) {
      auto found = keepFound(*identity, record, asked);
      if (found != nullptr) {
        stats_.count(&Stats::ended_by_upstream);
      }
      return found;
    };
  }
  // However it ended. In this order, so that a request that starts to wait in between sees that
  // this process no longer holds the claim, and asks the store itself.
  request.on_over = [this, identity, attempt = claim.ref.attempt] {
    heartbeat_->remove(attempt);
    waiters_->wakeAll(*identity);
  };
  request.ending = std::move(ending);
  settler_->settle(std::move(request), now);
}

void Backend::passOn(runtime::HeldClaim claim) {
  redirects_->give(std::move(claim), std::chrono::steady_clock::now());
}

request::ClaimServices Backend::claimServices() {
  return {.store = store(),
          .cache = cache_,
          .waiters = *waiters_,
          .key_rate = key_rate_,
          .store_timeout = protocol::timeoutOf(settings_.store),
          .tenant_live_keys = settings_.limits.tenant_live_keys};
}

void Backend::showStatus() {
  const store::StoreStatus status = opened_.store->status();
  stats_.set(&Stats::store_queued, status.queued);
  stats_.set(&Stats::store_queued_bytes, status.queued_bytes);
  stats_.set(&Stats::store_refuses, status.refuses ? 1 : 0);
  stats_.set(&Stats::store_orphans, status.orphans);
  countStore(status);
  if (const auto line = outages_.onStatus(status, rightNow())) {
    envoy::log(envoy::LogLevel::Info, "idempotency: " + *line);
  }
  stats_.onInterval();
  stats_.set(&Stats::held_bytes, admission_.heldBytes());
  stats_.set(&Stats::waiting, waiters_->size());
  stats_.set(&Stats::settling, settler_->size());
  stats_.set(&Stats::cache_bytes, cache_.bytes());
  stats_.set(&Stats::cache_entries, cache_.entries());
}

void Backend::countStore(const store::StoreStatus& status) {
  stats_.count(&Stats::store_batches, status.batches - shown_.batches);
  stats_.count(&Stats::store_operations, status.operations - shown_.operations);
  stats_.count(&Stats::store_batches_failed, status.batches_failed - shown_.batches_failed);
  stats_.count(&Stats::store_connects, status.connects - shown_.connects);
  stats_.count(&Stats::store_connections_lost, status.connections_lost - shown_.connections_lost);
  shown_ = status;
}

void Backend::onReport(const runtime::SettleReport& report) {
  switch (report.settled) {
    case runtime::Settled::Done:
    case runtime::Settled::ByUpstream:
      return;
    case runtime::Settled::Fenced:
      return stats_.count(&Stats::fenced);
    case runtime::Settled::NotYet:
    case runtime::Settled::Never:
      return onStoreError(outages_.onOutcomeNotStored(report.reason, rightNow()));
  }
}

void Backend::onClaimFailed(std::string_view reason) {
  onStoreError(outages_.onClaimFailed(reason, rightNow()));
}

void Backend::onStoreError(const std::optional<std::string>& line) {
  stats_.count(&Stats::store_error);
  if (line.has_value()) {
    envoy::log(envoy::LogLevel::Warn, "idempotency: " + *line);
  }
}

void Backend::onUnreadable(const absl::Status& why) {
  envoy::log(
      envoy::LogLevel::Error,
      fmt::format("idempotency: a stored response cannot be read: {}", std::string(why.message())));
}

void Backend::onFailOpen() {
  outages_.onFailOpen();
  if (const auto kept_back = fail_opens_.admit(std::chrono::steady_clock::now())) {
    envoy::log(envoy::LogLevel::Warn,
               fmt::format("idempotency: request runs unprotected (FAIL_OPEN): store unavailable{}",
                           runtime::droppedLines(*kept_back)));
  }
}

void Backend::onRunStarted() {
  if (!hasStartedRuns()) {
    startedRuns().add(settings_.private_listener->path);
    has_started_runs_.store(true, std::memory_order_relaxed);
  }
}

void Backend::onRunNotStarted(std::string_view reason, bool in_doubt) {
  if (const auto kept_back = not_started_.admit(std::chrono::steady_clock::now())) {
    constexpr std::string_view InDoubt =
        " (it forwards requests, or has not taken over a run yet: check that it has the HTTP "
        "filter idempotency_run)";
    envoy::log(envoy::LogLevel::Error,
               fmt::format("idempotency: detached run not started, request refused: private "
                           "listener {}: {}{}{}",
                           settings_.private_listener->path, reason, in_doubt ? InDoubt : "",
                           runtime::droppedLines(*kept_back)));
  }
}

void Backend::onConfigInvalid(std::string_view route, std::string_view why) {
  if (const auto kept_back = invalid_configs_.admit(std::chrono::steady_clock::now())) {
    envoy::log(
        envoy::LogLevel::Error,
        fmt::format("idempotency: request refused: the policy of route \"{}\" conflicts with "
                    "the filter's policy: {}{}",
                    route.empty() ? "unnamed" : route, why, runtime::droppedLines(*kept_back)));
  }
}

void Backend::onRecordPolled(const protocol::Identity& identity, const store::Record& record,
                             store::Deadline asked) {
  (void)keepFound(identity, record, asked);
}

std::shared_ptr<const runtime::CompletedRecord> Backend::keepFound(
    const protocol::Identity& identity, const store::Record& record, store::Deadline asked) {
  auto completed = request::completedRecord(record, asked, protocol::keyHash(identity));
  if (!completed.ok()) {
    onUnreadable(completed.status());
    return nullptr;
  }
  if (*completed != nullptr) {
    cache_.insert(identity, *completed, std::chrono::steady_clock::now());
  }
  return *std::move(completed);
}

}  // namespace idempotency::filter
