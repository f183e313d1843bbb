#include "source/filter/stats.h"

namespace idempotency {
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

std::optional<Stats> Stats::define(envoy::ConfigHandle handle) {
  Stats stats;
  bool ok = true;
#define IDEMPOTENCY_DEFINE(member, name) ok = take(handle.defineCounter(name), stats.member) && ok;
#define IDEMPOTENCY_DEFINE_LABELLED(member, name, label) \
  ok = take(handle.defineCounter<1>(name, {label}), stats.member) && ok;
  IDEMPOTENCY_COUNTERS(IDEMPOTENCY_DEFINE)
  IDEMPOTENCY_LABELLED_COUNTERS(IDEMPOTENCY_DEFINE_LABELLED)
#undef IDEMPOTENCY_DEFINE
#undef IDEMPOTENCY_DEFINE_LABELLED
  if (!ok) {
    return std::nullopt;
  }
  return stats;
}

}  // namespace idempotency
