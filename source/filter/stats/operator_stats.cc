#include "source/filter/stats/operator_stats.h"

namespace idempotency::filter {
namespace {

template <size_t N>
bool define(envoy::ConfigHandle handle, std::string_view name, const envoy::Labels<N>& labels,
            envoy::LabelledCounter<N>& member) {
  const auto defined = handle.defineCounter<N>(name, labels);
  member = defined.value_or(member);
  return defined.has_value();
}

}  // namespace

std::optional<OperatorStats> OperatorStats::define(envoy::ConfigHandle handle) {
  OperatorStats stats;
  bool ok = true;
#define IDEMPOTENCY_DEFINE_OPERATOR(member, name, ...) \
  ok = filter::define<labelCount(__VA_ARGS__)>(handle, name, {__VA_ARGS__}, stats.member) && ok;
  IDEMPOTENCY_OPERATOR_COUNTERS(IDEMPOTENCY_DEFINE_OPERATOR)
#undef IDEMPOTENCY_DEFINE_OPERATOR
  return ok ? std::optional(stats) : std::nullopt;
}

}  // namespace idempotency::filter
