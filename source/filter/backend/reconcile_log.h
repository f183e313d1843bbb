#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "source/filter/stats/stat_sink.h"
#include "source/runtime/log_limiter.h"
#include "source/runtime/reconcile_observer.h"

namespace idempotency::filter {

// Counts and logs what a backend's reconciler does. The sink must live as long as the reconciler.
class ReconcileLog : public runtime::ReconcileObserver {
public:
  explicit ReconcileLog(StatSink& stats) : stats_(stats) {}

  // runtime::ReconcileObserver
  void onAsked(bool first) override;
  void onSettled() override;
  void onUnanswered(const std::string& cluster, const std::string& why) override;
  void onDeadLetter(const store::ClaimRef& claim, uint32_t tries,
                    const std::string& last_answer) override;
  void onStoreFailed(const std::string& why) override;
  void onUnsettled(const std::vector<store::UnsettledUse>& unsettled) override;

private:
  StatSink& stats_;
  runtime::LogLimiter unanswered_{std::chrono::seconds(60)};
  runtime::LogLimiter store_failures_{std::chrono::seconds(60)};
};

}  // namespace idempotency::filter
