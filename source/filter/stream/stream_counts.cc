#include "source/filter/stream/stream_counts.h"

#include <variant>

namespace idempotency::filter {

void StreamCounts::onUnprotected(std::string_view route) const {
  backend_.stats().count(stream_, stats_, &Stats::unprotected, route.empty() ? "unnamed" : route);
}

void StreamCounts::onRefusal(runtime::Refusal refusal) const {
  switch (refusal) {
    case runtime::Refusal::TenantInFlight:
      return stream_.increment(stats_.tenant_in_flight_full);
    case runtime::Refusal::TenantBytes:
      return stream_.increment(stats_.tenant_bytes_full);
    case runtime::Refusal::TenantWaiters:
      return stream_.increment(stats_.tenant_waiters_full);
    case runtime::Refusal::InFlight:
      return stream_.increment(stats_.in_flight_full);
    case runtime::Refusal::Bytes:
      return stream_.increment(stats_.held_bytes_full);
    case runtime::Refusal::None:
      return;
  }
}

void StreamCounts::onClaimEvent(request::ClaimEvent event) const {
  switch (event) {
    case request::ClaimEvent::JsonRejected:
      return stream_.increment(stats_.json_rejected);
    case request::ClaimEvent::FoundInCache:
      return stream_.increment(stats_.replay_cached);
    case request::ClaimEvent::WaitStarted:
      return stream_.increment(stats_.waited);
    case request::ClaimEvent::QueueFull:
      return stream_.increment(stats_.queue_full);
    case request::ClaimEvent::GrantedAfterLease:
      return stream_.increment(stats_.store_late_answer);
  }
}

void StreamCounts::onTenantEvent(StatSink::Labelled counter, const std::string& tenant) const {
  backend_.stats().count(stream_, stats_, counter, backend_.tenantLabels().labelFor(tenant));
}

void StreamCounts::onFound(const std::string& tenant, const protocol::Decision& decision) const {
  const auto duplicate = [&] { onTenantEvent(&Stats::tenant_duplicates, tenant); };
  if (std::holds_alternative<protocol::Replay>(decision)) {
    duplicate();
    return stream_.increment(stats_.claim_replay);
  }
  if (std::holds_alternative<protocol::Wait>(decision)) {
    duplicate();
    return stream_.increment(stats_.claim_in_progress);
  }
  const auto* refusal = std::get_if<protocol::Answer>(&decision);
  if (refusal == nullptr) {
    return;
  }
  switch (refusal->problem) {
    case protocol::Problem::KeyReused:
      onTenantEvent(&Stats::tenant_key_reused, tenant);
      return stream_.increment(stats_.claim_key_reused);
    case protocol::Problem::InProgress:
    case protocol::Problem::Accepted:
    case protocol::Problem::Asynchronous:
      duplicate();
      return stream_.increment(stats_.claim_in_progress);
    case protocol::Problem::OutcomeUnknown:
    case protocol::Problem::UnknownExpired:
      duplicate();
      return stream_.increment(stats_.claim_unknown);
    case protocol::Problem::StoreUnavailable:
    case protocol::Problem::KeyMissing:
    case protocol::Problem::KeyInvalid:
    case protocol::Problem::TenantMissing:
    case protocol::Problem::ResponseUnavailable:
    case protocol::Problem::KeyExpired:
    case protocol::Problem::QuotaExceeded:
    case protocol::Problem::RequestTooLarge:
    case protocol::Problem::RequestTooOld:
    case protocol::Problem::RecordUnreadable:
    case protocol::Problem::ConfigInvalid:
    case protocol::Problem::UpgradeRefused:
    case protocol::Problem::Overloaded:
    case protocol::Problem::ExpectationFailed:
    case protocol::Problem::DetachedUnavailable:
    case protocol::Problem::DetachedTimeout:
    case protocol::Problem::DetachedLost:
    case protocol::Problem::RunNotFound:
    case protocol::Problem::RunNotCompleted:
      return duplicate();
  }
}

void StreamCounts::onRun(std::optional<protocol::RecordState> from) const {
  if (!from.has_value()) {
    return stream_.increment(stats_.claim_created);
  }
  const bool over =
      *from == protocol::RecordState::Completed || *from == protocol::RecordState::Expired;
  stream_.increment(over ? stats_.claim_expired_run : stats_.claim_failed_retry);
}

void StreamCounts::onOutcome(protocol::OutcomeBasis basis) const {
  switch (basis) {
    case protocol::OutcomeBasis::Declaration:
      return stream_.increment(stats_.outcome_declared);
    case protocol::OutcomeBasis::InvalidDeclaration:
      return stream_.increment(stats_.outcome_invalid);
    case protocol::OutcomeBasis::Proxy:
      return stream_.increment(stats_.outcome_proxy_made);
    case protocol::OutcomeBasis::EarlierSend:
      return stream_.increment(stats_.outcome_sent_before);
    case protocol::OutcomeBasis::Envoy:
    case protocol::OutcomeBasis::Response:
      return;
  }
}

}  // namespace idempotency::filter
