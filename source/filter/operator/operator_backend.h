#pragma once

#include <memory>
#include <thread>

#include <absl/status/statusor.h>

#include "source/filter/operator/operator_log.h"
#include "source/operator_api/api.h"
#include "source/operator_api/key_ring.h"
#include "source/operator_api/store_desk.h"
#include "source/protocol/settings.h"

namespace idempotency::filter {

// What all configs of the operator filter with equal settings share: the API, the thread that asks
// the store, and the thread that reads the webhook's keys. So it outlives reloads.
//
// Any thread may use it while a config holds it. It is destroyed with its last config. That waits
// for the call of the store that is being made, so on a worker it happens on another thread (see
// Undertaker). No stream waits for an answer then: Envoy keeps a config longer than its streams.
class OperatorBackend {
public:
  // The backend with these settings, or a new one. Opens no store yet. Main thread.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<OperatorBackend>> obtain(
      const protocol::OperatorSettings& settings);

  const operator_api::Api& api() const { return api_; }
  operator_api::StoreDesk& desk() { return desk_; }
  OperatorLog& log() { return log_; }

private:
  OperatorBackend(const protocol::OperatorSettings& settings,
                  std::unique_ptr<operator_api::KeyRing> keys);
  ~OperatorBackend() = default;

  const std::unique_ptr<operator_api::KeyRing> keys_;  // Null: no webhook, or an unsigned one.
  const operator_api::Api api_;
  OperatorLog log_;  // The desk's thread uses it.
  operator_api::StoreDesk desk_;
};

}  // namespace idempotency::filter
