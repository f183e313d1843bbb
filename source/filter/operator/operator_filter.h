#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "source/envoy/filter.h"
#include "source/filter/operator/operator_backend.h"
#include "source/filter/stats/operator_stats.h"
#include "source/operator_api/api.h"
#include "source/protocol/name_source.h"

namespace idempotency::filter {

// One config of the operator filter. Immutable, so workers share it without locks.
class OperatorFilterConfig : public envoy::FilterFactory {
public:
  // `backend` is null under `envoy --mode validate`, where there are no requests.
  OperatorFilterConfig(envoy::ConfigHandle handle, std::vector<protocol::NameSource> actor_sources,
                       const OperatorStats& stats, std::shared_ptr<OperatorBackend> backend);
  ~OperatorFilterConfig() override;

  // envoy::FilterFactory
  std::unique_ptr<envoy::Filter> createFilter(envoy::Stream stream) override;

  const std::vector<protocol::NameSource>& actorSources() const { return actor_sources_; }
  const OperatorStats& stats() const { return stats_; }
  OperatorBackend& backend() const { return *backend_; }

private:
  const std::vector<protocol::NameSource> actor_sources_;
  const OperatorStats stats_;
  const std::shared_ptr<OperatorBackend> backend_;
};

// One request to the operators' API: answered here, never forwarded. The store is asked on the
// desk's thread, and its answer comes back through the mailbox. If the client leaves before the
// store is asked, it is not asked at all; a change that has begun is finished.
class OperatorFilter : public envoy::Filter {
public:
  OperatorFilter(envoy::Stream stream, const OperatorFilterConfig& config);

  // envoy::Filter
  envoy::HeadersAction onRequestHeaders(bool end) override;
  envoy::BodyAction onRequestBody(bool end) override;
  envoy::TrailersAction onRequestTrailers() override;
  void onStreamComplete() override;

private:
  operator_api::RequestHead readHead() const;
  const operator_api::Api& api() const { return config_.backend().api(); }
  // The request is complete.
  void onRequest();
  void ask(operator_api::StoreCall call);
  // TERMINAL: see envoy::Stream. Only the first answer is sent.
  void answer(const operator_api::ApiAnswer& answer);
  void countAnswer(const operator_api::ApiAnswer& answer);
  // `result`: of an event, if the request is one.
  void count(std::string_view status, std::string_view result);
  // Of the webhook.
  bool isEvent() const;

  const OperatorFilterConfig& config_;  // Envoy keeps it alive longer than its streams.
  operator_api::RequestHead head_;
  std::string_view endpoint_;  // Empty: no request has come, because an earlier filter answered it.
  std::optional<operator_api::Target> target_;  // Until the request is complete.
  bool answered_ = false;
  // The desk's thread reads it.
  const std::shared_ptr<std::atomic<bool>> gone_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace idempotency::filter
