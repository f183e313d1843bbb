#include "source/filter/stats/stats.h"

#include "bazel/version.h"

namespace idempotency::filter {
namespace {

template <class Metric>
bool take(std::optional<Metric> defined, Metric& member) {
  if (!defined.has_value()) {
    return false;
  }
  member = *defined;
  return true;
}

}  // namespace

envoy::Counter Stats::forAnswer(protocol::Problem problem) const {
  switch (problem) {
#define IDEMPOTENCY_CASE(problem, name) \
  case protocol::Problem::problem:      \
    return answer_##problem;
    IDEMPOTENCY_ANSWER_COUNTERS(IDEMPOTENCY_CASE)
#undef IDEMPOTENCY_CASE
  }
  return answer_StoreUnavailable;
}

std::optional<Stats> Stats::define(envoy::ConfigHandle handle) {
  Stats stats;
  bool ok = true;
#define IDEMPOTENCY_DEFINE_ANSWER(problem, name) \
  ok = take(handle.defineCounter(name), stats.answer_##problem) && ok;
#define IDEMPOTENCY_DEFINE(member, name) ok = take(handle.defineCounter(name), stats.member) && ok;
#define IDEMPOTENCY_DEFINE_LABELLED(member, name, label) \
  ok = take(handle.defineCounter<1>(name, {label}), stats.member) && ok;
#define IDEMPOTENCY_DEFINE_GAUGE(member, name) \
  ok = take(handle.defineGauge(name), stats.member) && ok;
#define IDEMPOTENCY_DEFINE_LABELLED_GAUGE(member, name, label) \
  ok = take(handle.defineGauge<1>(name, {label}), stats.member) && ok;
#define IDEMPOTENCY_DEFINE_HISTOGRAM(member, name) \
  ok = take(handle.defineHistogram(name), stats.member) && ok;
  IDEMPOTENCY_ANSWER_COUNTERS(IDEMPOTENCY_DEFINE_ANSWER)
  IDEMPOTENCY_COUNTERS(IDEMPOTENCY_DEFINE)
  IDEMPOTENCY_LABELLED_COUNTERS(IDEMPOTENCY_DEFINE_LABELLED)
  IDEMPOTENCY_GAUGES(IDEMPOTENCY_DEFINE_GAUGE)
  IDEMPOTENCY_LABELLED_GAUGES(IDEMPOTENCY_DEFINE_LABELLED_GAUGE)
  IDEMPOTENCY_HISTOGRAMS(IDEMPOTENCY_DEFINE_HISTOGRAM)
#undef IDEMPOTENCY_DEFINE_ANSWER
#undef IDEMPOTENCY_DEFINE
#undef IDEMPOTENCY_DEFINE_LABELLED
#undef IDEMPOTENCY_DEFINE_GAUGE
#undef IDEMPOTENCY_DEFINE_LABELLED_GAUGE
#undef IDEMPOTENCY_DEFINE_HISTOGRAM
  if (!ok) {
    return std::nullopt;
  }
  handle.set(stats.version, {Version}, 1);
  return stats;
}

}  // namespace idempotency::filter
