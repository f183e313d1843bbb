#pragma once

#include <optional>
#include <string_view>

#include "source/envoy/config_handle.h"
#include "source/envoy/metrics.h"
#include "source/protocol/problem.h"

// The filter's own statistics, listed once. docs/stats.md explains each; a test compares the two.
namespace idempotency::filter {

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
  X(UnknownExpired, "unknown_expired")           \
  X(QuotaExceeded, "quota_exceeded")             \
  X(RequestTooLarge, "request_too_large")        \
  X(RequestTooOld, "request_too_old")            \
  X(UpgradeRefused, "upgrade_refused")           \
  X(StoreUnavailable, "store_unavailable")       \
  X(RecordUnreadable, "record_unreadable")       \
  X(ConfigInvalid, "config_invalid")             \
  X(Overloaded, "overloaded")                    \
  X(ExpectationFailed, "expectation_failed")     \
  X(DetachedUnavailable, "detached_unavailable") \
  X(DetachedTimeout, "detached_timeout")         \
  X(DetachedLost, "detached_lost")               \
  X(Asynchronous, "respond_async")               \
  X(RunNotFound, "run_not_found")                \
  X(RunNotCompleted, "run_not_completed")

// X(member, name). Plain counters.
#define IDEMPOTENCY_COUNTERS(X)                         \
  X(covered, "covered")                                 \
  X(claim_created, "claim.created")                     \
  X(claim_replay, "claim.replay")                       \
  X(claim_in_progress, "claim.in_progress")             \
  X(claim_key_reused, "claim.key_reused")               \
  X(claim_failed_retry, "claim.failed_retry")           \
  X(claim_expired_run, "claim.expired_run")             \
  X(claim_unknown, "claim.unknown")                     \
  X(replay_cached, "replay.cached")                     \
  X(waited, "waited")                                   \
  X(redirected, "redirected")                           \
  X(cut_short, "cut_short")                             \
  X(json_rejected, "json_rejected")                     \
  X(in_flight_full, "in_flight_full")                   \
  X(held_bytes_full, "held_bytes.full")                 \
  X(held_bytes_unkept, "held_bytes.unkept")             \
  X(queue_full, "queue_full")                           \
  X(tenant_in_flight_full, "tenant.in_flight_full")     \
  X(tenant_bytes_full, "tenant.held_bytes_full")        \
  X(tenant_waiters_full, "tenant.waiters_full")         \
  X(store_error, "store.error")                         \
  X(store_batches, "store.batches")                     \
  X(store_operations, "store.operations")               \
  X(store_batches_failed, "store.batches_failed")       \
  X(store_connects, "store.connects")                   \
  X(store_connections_lost, "store.connections_lost")   \
  X(store_fail_open, "store.fail_open")                 \
  X(store_late_answer, "store.late_answer")             \
  X(ended_completed, "ended.completed")                 \
  X(ended_by_upstream, "ended.by_upstream")             \
  X(ended_tombstone, "ended.tombstone")                 \
  X(ended_failed_retryable, "ended.failed_retryable")   \
  X(ended_released, "ended.released")                   \
  X(ended_unknown, "ended.unknown")                     \
  X(detached_runs, "detached.runs")                     \
  X(detached_handed_over, "detached.handed_over")       \
  X(detached_finished_alone, "detached.finished_alone") \
  X(detached_lost, "detached.lost")                     \
  X(detached_not_started, "detached.not_started")       \
  X(detached_strays, "detached.strays")                 \
  X(status_requests, "status_requests")                 \
  X(outcome_declared, "outcome.declared")               \
  X(outcome_invalid, "outcome.invalid")                 \
  X(outcome_proxy_made, "outcome.proxy_made")           \
  X(outcome_sent_before, "outcome.sent_before")         \
  X(not_stored, "not_stored")                           \
  X(fenced, "fenced")                                   \
  X(heartbeat_extended, "heartbeat.extended")           \
  X(heartbeat_failed, "heartbeat.failed")               \
  X(lease_to_unknown, "lease.to_unknown")               \
  X(lease_to_retry, "lease.to_retry")                   \
  X(reaped, "reaped")                                   \
  X(maintenance_failed, "maintenance.failed")           \
  X(reconcile_scheduled, "reconcile.scheduled")         \
  X(reconcile_asked, "reconcile.asked")                 \
  X(reconcile_resolved, "reconcile.resolved")           \
  X(reconcile_failed, "reconcile.failed")               \
  X(reconcile_dead_letters, "reconcile.dead_letters")

// X(member, name, label). Counters with one label.
#define IDEMPOTENCY_LABELLED_COUNTERS(X)              \
  X(unprotected, "unprotected", "route")              \
  X(tenant_duplicates, "tenant.duplicates", "tenant") \
  X(tenant_key_reused, "tenant.key_reused", "tenant")

// X(member, name).
#define IDEMPOTENCY_GAUGES(X)                 \
  X(store_queued, "store.queued")             \
  X(store_queued_bytes, "store.queued_bytes") \
  X(store_refuses, "store.refuses")           \
  X(store_orphans, "store.orphans")           \
  X(in_flight, "in_flight")                   \
  X(detached_running, "detached.running")     \
  X(held_bytes, "held_bytes")                 \
  X(waiting, "waiting")                       \
  X(settling, "settling")                     \
  X(leader, "leader")                         \
  X(cache_bytes, "cache.bytes")               \
  X(cache_entries, "cache.entries")

// X(member, name, label). Gauges with one label.
#define IDEMPOTENCY_LABELLED_GAUGES(X)                             \
  X(version, "version", "version")                                 \
  X(unknown_records, "unknown.records", "operation")               \
  X(unknown_oldest_seconds, "unknown.oldest_seconds", "operation") \
  X(dead_letters, "dead_letters", "operation")

// X(member, name). Microseconds.
#define IDEMPOTENCY_HISTOGRAMS(X) \
  X(claim_us, "claim_us")         \
  X(completion_us, "completion_us")

struct Stats {
#define IDEMPOTENCY_ANSWER_MEMBER(problem, name) envoy::Counter answer_##problem;
#define IDEMPOTENCY_MEMBER(member, name) envoy::Counter member;
#define IDEMPOTENCY_LABELLED_MEMBER(member, name, label) envoy::LabelledCounter<1> member;
#define IDEMPOTENCY_GAUGE_MEMBER(member, name) envoy::Gauge member;
#define IDEMPOTENCY_LABELLED_GAUGE_MEMBER(member, name, label) envoy::LabelledGauge<1> member;
#define IDEMPOTENCY_HISTOGRAM_MEMBER(member, name) envoy::Histogram member;
  IDEMPOTENCY_ANSWER_COUNTERS(IDEMPOTENCY_ANSWER_MEMBER)
  IDEMPOTENCY_COUNTERS(IDEMPOTENCY_MEMBER)
  IDEMPOTENCY_LABELLED_COUNTERS(IDEMPOTENCY_LABELLED_MEMBER)
  IDEMPOTENCY_GAUGES(IDEMPOTENCY_GAUGE_MEMBER)
  IDEMPOTENCY_LABELLED_GAUGES(IDEMPOTENCY_LABELLED_GAUGE_MEMBER)
  IDEMPOTENCY_HISTOGRAMS(IDEMPOTENCY_HISTOGRAM_MEMBER)
#undef IDEMPOTENCY_ANSWER_MEMBER
#undef IDEMPOTENCY_MEMBER
#undef IDEMPOTENCY_LABELLED_MEMBER
#undef IDEMPOTENCY_GAUGE_MEMBER
#undef IDEMPOTENCY_LABELLED_GAUGE_MEMBER
#undef IDEMPOTENCY_HISTOGRAM_MEMBER

  envoy::Counter forAnswer(protocol::Problem problem) const;

  // Only while the config is being made. None: Envoy refused a definition.
  // Also tells the version. Main thread.
  static std::optional<Stats> define(envoy::ConfigHandle handle);
};

}  // namespace idempotency::filter
