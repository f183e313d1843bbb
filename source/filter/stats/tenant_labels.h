#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace idempotency::filter {

// Gives tenants a label in statistics, which exist as long as Envoy: the first tenants that appear
// often enough get their own label, all others share `other`. An empty tenant is `none`. Any
// thread.
class TenantLabels {
public:
  static constexpr size_t MostNames = 100;
  static constexpr size_t EventsForAName = 10;

  // Counts one event. The label is `tenant` itself or a constant.
  std::string_view labelFor(std::string_view tenant);

private:
  static constexpr size_t MostCandidates = 10'000;
  static constexpr std::string_view Other = "other";
  static constexpr std::string_view None = "none";

  // With the lock held: removes tenants without a label, to limit the memory.
  void forgetCandidates();

  std::mutex mutex_;
  // Guarded by mutex_. Events so far; with EventsForAName, the tenant keeps its label forever.
  absl::flat_hash_map<std::string, size_t> events_;
  size_t names_ = 0;  // Guarded by mutex_.
};

}  // namespace idempotency::filter
