#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "source/envoy/config_handle.h"
#include "source/envoy/mailbox.h"
#include "source/filter/stats/operator_stats.h"
#include "source/operator_api/problem.h"
#include "source/runtime/log_limiter.h"
#include "source/store/operator_store.h"

namespace idempotency::filter {

// Counts and logs what operators and services change. Any thread. A line has the hash of the key,
// never the key, and no reason: a reason is free text, and may name the key. What comes from a
// request is quoted.
class OperatorLog {
public:
  // Adds a config, on the main thread, and removes it: after detach() its handle is no longer used.
  // What is not counted yet is counted through another config; without one, it is lost.
  void attach(envoy::ConfigHandle handle, const OperatorStats& stats,
              std::shared_ptr<envoy::Mailbox> mailbox);
  void detach(envoy::ConfigHandle handle);

  // The store was asked for a change, and answered this.
  void onChange(const store::OperatorChange& change,
                const absl::StatusOr<store::ChangeResult>& result);
  void onPurge(const store::Purge& purge, const absl::StatusOr<store::PurgeResult>& result);

  // An event of the webhook was not accepted. At most one line per reason and minute.
  void onRefusedEvent(operator_api::ApiProblem problem);

private:
  struct Config {
    envoy::ConfigHandle handle;
    OperatorStats stats;
    std::shared_ptr<envoy::Mailbox> mailbox;
  };
  // Both live as long as the program.
  struct Counted {
    std::string_view action;
    std::string_view outcome;
  };

  // Statistics with labels may only be changed on the main thread: it gets a task.
  void count(Counted what);
  // With the lock held, and with at least one config.
  void postTelling();
  // Main thread.
  void tell(envoy::ConfigHandle handle, const OperatorStats& stats);

  std::mutex mutex_;
  // All guarded by mutex_.
  std::vector<Config> configs_;   // The newest, which lives longest, is the last.
  std::vector<Counted> pending_;  // Not counted yet.
  std::map<operator_api::ApiProblem, runtime::LogLimiter> refused_events_;
};

}  // namespace idempotency::filter
