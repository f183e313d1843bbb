#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "source/store/operator_store.h"
#include "source/store/store.h"

namespace idempotency::runtime {

// Counts and logs what the reconciler does. Called on the reconciler's thread.
class ReconcileObserver {
public:
  virtual ~ReconcileObserver() = default;

  // `first`: the first question about this attempt.
  virtual void onAsked(bool first) = 0;
  // An answer has settled the record.
  virtual void onSettled() = 0;
  // The service has not answered. `why` is for an operator.
  virtual void onUnanswered(const std::string& cluster, const std::string& why) = 0;
  // The reconciler has given up: the record is a dead letter now.
  virtual void onDeadLetter(const store::ClaimRef& claim, uint32_t tries,
                            const std::string& last_answer) = 0;
  virtual void onStoreFailed(const std::string& why) = 0;
  // The records without an outcome. Empty when this process no longer leads.
  virtual void onUnsettled(const std::vector<store::UnsettledUse>& unsettled) = 0;
};

}  // namespace idempotency::runtime
