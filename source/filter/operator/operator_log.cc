#include "source/filter/operator/operator_log.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <utility>

#include "source/envoy/process.h"
#include "source/protocol/key_hash.h"
#include "source/protocol/tenant_hash.h"
#include "source/runtime/log_text.h"
#include "source/store/audit.h"
#include "source/store/operator_rules.h"

namespace idempotency::filter {
namespace {

constexpr std::string_view Done = "done";
constexpr std::string_view DryRun = "dry_run";
constexpr std::string_view Failed = "failed";
constexpr std::string_view PurgeAction = store::name(store::AuditAction::Purge);

std::string_view outcomeOf(bool dry_run, const absl::StatusOr<store::ChangeResult>& result) {
  if (!result.ok()) {
    return Failed;
  }
  switch (result->outcome) {
    case store::ChangeOutcome::Done:
      return dry_run ? DryRun : Done;
    case store::ChangeOutcome::Absent:
      return "absent";
    case store::ChangeOutcome::Stale:
      return "stale";
    case store::ChangeOutcome::Refused:
      return "refused";
  }
  return Failed;
}

// An actor may be as long as a header.
std::string shown(std::string_view text) {
  constexpr size_t MostBytes = 256;
  return runtime::quoted(text.substr(0, MostBytes)) + (text.size() > MostBytes ? "..." : "");
}

void log(envoy::LogLevel level, const std::string& line) {
  envoy::log(level, "idempotency: operator: " + line);
}

// What a line says of who did what to which record.
std::string describe(std::string_view action, const store::OperatorChange& change) {
  const protocol::Identity& identity = change.seen.identity;
  return fmt::format("{}: actor {}, tenant {}, operation {}, key hash {}, attempt {}",
                     std::string(action), shown(change.actor), shown(identity.tenant),
                     shown(identity.operation), protocol::keyHash(identity), change.seen.attempt);
}

// The name of the tenant does not outlive the purge in the log either.
std::string describe(const store::Purge& purge) {
  return fmt::format("{}: actor {}, tenant {}", std::string(PurgeAction), shown(purge.actor),
                     protocol::tenantHash(purge.tenant));
}

std::string numbers(const store::PurgeResult& result) {
  return fmt::format(
      "{} records deleted, {} of them unknown, {} left running, {} audit entries renamed{}",
      result.records, result.unsettled, result.running, result.audit_entries,
      result.more ? ", more are left" : "");
}

}  // namespace

void OperatorLog::attach(envoy::ConfigHandle handle, const OperatorStats& stats,
                         std::shared_ptr<envoy::Mailbox> mailbox) {
  const std::lock_guard lock(mutex_);
  configs_.push_back({handle, stats, std::move(mailbox)});
}

void OperatorLog::detach(envoy::ConfigHandle handle) {
  const std::lock_guard lock(mutex_);
  std::erase_if(configs_,
                [&](const Config& config) { return config.handle.handle() == handle.handle(); });
  if (!pending_.empty() && !configs_.empty()) {
    postTelling();
  }
}

void OperatorLog::onChange(const store::OperatorChange& change,
                           const absl::StatusOr<store::ChangeResult>& result) {
  const std::string_view action = store::name(store::auditAction(change.action));
  const std::string_view outcome = outcomeOf(change.dry_run, result);
  count({action, outcome});
  if (outcome == Done) {
    log(envoy::LogLevel::Info, describe(action, change) + ": done");
  } else if (outcome == Failed && !change.dry_run) {
    log(envoy::LogLevel::Warn,
        describe(action, change) + ": the store failed; the audit shows whether it was made");
  }
}

void OperatorLog::onPurge(const store::Purge& purge,
                          const absl::StatusOr<store::PurgeResult>& result) {
  count({PurgeAction, !result.ok() ? Failed : purge.dry_run ? DryRun : Done});
  if (purge.dry_run) {
    return;
  }
  if (result.ok()) {
    log(envoy::LogLevel::Info, fmt::format("{}: done: {}", describe(purge), numbers(*result)));
  } else {
    log(envoy::LogLevel::Warn,
        describe(purge) + ": the store failed; the audit shows whether it was made");
  }
}

void OperatorLog::onRefusedEvent(operator_api::ApiProblem problem) {
  constexpr std::chrono::seconds Interval{60};
  const std::lock_guard lock(mutex_);
  runtime::LogLimiter& limiter = refused_events_.try_emplace(problem, Interval).first->second;
  if (const auto dropped = limiter.admit(std::chrono::steady_clock::now())) {
    envoy::log(envoy::LogLevel::Warn,
               fmt::format("idempotency: webhook: event refused: {}{}",
                           std::string(operator_api::problemText(problem).code),
                           runtime::droppedLines(*dropped)));
  }
}

void OperatorLog::count(Counted what) {
  const std::lock_guard lock(mutex_);
  if (configs_.empty()) {
    return;
  }
  pending_.push_back(what);
  postTelling();
}

void OperatorLog::postTelling() {
  const Config& config = configs_.back();
  // Runs only while the config exists, and with it the backend that owns this object.
  config.mailbox->post(
      [this, handle = config.handle, stats = config.stats] { tell(handle, stats); });
}

void OperatorLog::tell(envoy::ConfigHandle handle, const OperatorStats& stats) {
  std::vector<Counted> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(pending_);
  }
  for (const Counted& what : all) {
    handle.increment(stats.changes, {what.action, what.outcome});
  }
}

}  // namespace idempotency::filter
