#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "source/envoy/stream.h"
#include "source/filter/backend/backend.h"
#include "source/filter/stats/stat_sink.h"
#include "source/filter/stats/stats.h"
#include "source/protocol/decide.h"
#include "source/protocol/outcome.h"
#include "source/protocol/record.h"
#include "source/request/claimant.h"
#include "source/runtime/admission.h"

namespace idempotency::filter {

// Counts what happens to one request. Worker thread, while the stream exists.
class StreamCounts {
public:
  StreamCounts(envoy::Stream stream, const Stats& stats, Backend& backend)
      : stream_(stream), stats_(stats), backend_(backend) {}

  // It runs without a claim, on a route that enforces nothing.
  void onUnprotected(std::string_view route) const;
  void onRefusal(runtime::Refusal refusal) const;
  void onClaimEvent(request::ClaimEvent event) const;
  // There is a record, and this follows from it.
  void onFound(const std::string& tenant, const protocol::Decision& decision) const;
  // It runs. `from` as in Claimant::reclaimedFrom().
  void onRun(std::optional<protocol::RecordState> from) const;
  void onOutcome(protocol::OutcomeBasis basis) const;

private:
  void onTenantEvent(StatSink::Labelled counter, const std::string& tenant) const;

  const envoy::Stream stream_;
  const Stats& stats_;
  Backend& backend_;
};

}  // namespace idempotency::filter
