#pragma once

#include <optional>
#include <string_view>

#include "source/envoy/config_handle.h"
#include "source/envoy/metrics.h"
#include "source/protocol/problem.h"

// The filter's own statistics, listed once. docs/stats.md explains each; a test compares the two.
namespace idempotency {

// X(problem, name). One counter for each answer that the filter gives in place of the upstream's.
#define IDEMPOTENCY_ANSWER_COUNTERS(X)           \
  X(KeyMissing, "key_missing")                   \
  X(KeyInvalid, "key_invalid")                   \
  X(TenantMissing, "tenant_missing")             \
  X(KeyReused, "key_reused")                     \
  X(InProgress, "in_progress")                   \
  X(Accepted, "accepted")                        \
  X(OutcomeUnknown, "outcome_unknown")           \
  X(ResponseUnavailable, "response_unavailable") \
  X(KeyExpired, "key_expired")                   \
  X(QuotaExceeded, "quota_exceeded")             \
  X(RequestTooLarge, "request_too_large")        \
  X(RequestTooOld, "request_too_old")            \
  X(UpgradeRefused, "upgrade_refused")           \
  X(StoreUnavailable, "store_unavailable")       \
  X(RecordUnreadable, "record_unreadable")       \
  X(ConfigInvalid, "config_invalid")

// X(member, name). Plain counters.
#define IDEMPOTENCY_COUNTERS(X)                       \
  X(covered, "covered")                               \
  X(reserve_created, "reserve.created")               \
  X(reserve_replay, "reserve.replay")                 \
  X(reserve_in_progress, "reserve.in_progress")       \
  X(reserve_key_misuse, "reserve.key_misuse")         \
  X(reserve_failed_retry, "reserve.failed_retry")     \
  X(reserve_expired_run, "reserve.expired_run")       \
  X(reserve_unknown, "reserve.unknown")               \
  X(replay_cached, "replay.cached")                   \
  X(waited, "waited")                                 \
  X(redirected, "redirected")                         \
  X(cut_short, "cut_short")                           \
  X(json_rejected, "json_rejected")                   \
  X(in_flight_full, "in_flight_full")                 \
  X(store_error, "store.error")                       \
  X(store_batches, "store.batches")                   \
  X(store_operations, "store.operations")             \
  X(store_fail_open, "store.fail_open")               \
  X(store_late_answer, "store.late_answer")           \
  X(ended_completed, "ended.completed")               \
  X(ended_tombstone, "ended.tombstone")               \
  X(ended_failed_retryable, "ended.failed_retryable") \
  X(ended_released, "ended.released")                 \
  X(ended_unknown, "ended.unknown")                   \
  X(not_stored, "not_stored")                         \
  X(zombie_key, "zombie_key")                         \
  X(heartbeat_extended, "heartbeat.extended")         \
  X(heartbeat_failed, "heartbeat.failed")             \
  X(lease_to_unknown, "lease.to_unknown")             \
  X(lease_to_retry, "lease.to_retry")                 \
  X(given_up, "given_up")                             \
  X(ttl_pruned, "ttl_pruned")                         \
  X(maintenance_failed, "maintenance.failed")         \
  X(reconcile_scheduled, "reconcile.scheduled")

// X(member, name, label). Counters with one label.
#define IDEMPOTENCY_LABELLED_COUNTERS(X)              \
  X(unprotected, "unprotected", "route")              \
  X(tenant_duplicates, "tenant.duplicates", "tenant") \
  X(tenant_key_misuses, "tenant.key_misuses", "tenant")

// X(member, name).
#define IDEMPOTENCY_GAUGES(X)                 \
  X(store_queued, "store.queued")             \
  X(store_queued_bytes, "store.queued_bytes") \
  X(store_refuses, "store.refuses")           \
  X(in_flight, "in_flight")                   \
  X(waiting, "waiting")                       \
  X(settling, "settling")                     \
  X(leader, "leader")                         \
  X(cache_bytes, "cache.bytes")               \
  X(cache_entries, "cache.entries")

// X(member, name). Microseconds.
#define IDEMPOTENCY_HISTOGRAMS(X) \
  X(claim_us, "claim_us")         \
  X(completion_us, "completion_us")

struct Stats {
#define IDEMPOTENCY_ANSWER_MEMBER(problem, name) envoy::Counter answer_##problem;
#define IDEMPOTENCY_MEMBER(member, name) envoy::Counter member;
#define IDEMPOTENCY_LABELLED_MEMBER(member, name, label) envoy::LabelledCounter<1> member;
#define IDEMPOTENCY_GAUGE_MEMBER(member, name) envoy::Gauge member;
#define IDEMPOTENCY_HISTOGRAM_MEMBER(member, name) envoy::Histogram member;
  IDEMPOTENCY_ANSWER_COUNTERS(IDEMPOTENCY_ANSWER_MEMBER)
  IDEMPOTENCY_COUNTERS(IDEMPOTENCY_MEMBER)
  IDEMPOTENCY_LABELLED_COUNTERS(IDEMPOTENCY_LABELLED_MEMBER)
  IDEMPOTENCY_GAUGES(IDEMPOTENCY_GAUGE_MEMBER)
  IDEMPOTENCY_HISTOGRAMS(IDEMPOTENCY_HISTOGRAM_MEMBER)
#undef IDEMPOTENCY_ANSWER_MEMBER
#undef IDEMPOTENCY_MEMBER
#undef IDEMPOTENCY_LABELLED_MEMBER
#undef IDEMPOTENCY_GAUGE_MEMBER
#undef IDEMPOTENCY_HISTOGRAM_MEMBER

  envoy::Counter forAnswer(Problem problem) const;

  // Only while the config is being made. None: Envoy refused a definition.
  static std::optional<Stats> define(envoy::ConfigHandle handle);
};

}  // namespace idempotency
