#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace idempotency {

// Gives tenants a name in labelled statistics, which live as long as Envoy: the first ones that
// show up often enough get their own, all others share `other`. An empty tenant is `none`. Any
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

  // With the lock held: those without a name, so that memory stays bounded.
  void forgetCandidates();

  std::mutex mutex_;
  // Guarded by mutex_. Events so far; with EventsForAName the tenant keeps its name for ever.
  absl::flat_hash_map<std::string, size_t> events_;
  size_t names_ = 0;  // Guarded by mutex_.
};

}  // namespace idempotency
