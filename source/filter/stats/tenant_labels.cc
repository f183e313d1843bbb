#include "source/filter/stats/tenant_labels.h"

namespace idempotency::filter {

std::string_view TenantLabels::labelFor(std::string_view tenant) {
  if (tenant.empty()) {
    return None;
  }
  const std::lock_guard lock(mutex_);
  auto found = events_.find(std::string(tenant));
  if (found == events_.end()) {
    if (events_.size() >= MostCandidates) {
      forgetCandidates();
    }
    found = events_.emplace(std::string(tenant), 0).first;
  }
  size_t& events = found->second;
  if (events >= EventsForAName) {
    return tenant;
  }
  if (events + 1 == EventsForAName) {
    if (names_ == MostNames) {
      return Other;
    }
    ++names_;
  }
  return ++events >= EventsForAName ? tenant : Other;
}

void TenantLabels::forgetCandidates() {
  absl::erase_if(events_, [](const auto& item) { return item.second < EventsForAName; });
}

}  // namespace idempotency::filter
