#include "source/filter/stats/label_tally.h"

namespace idempotency::filter {

bool LabelTally::add(std::string_view label) {
  const std::lock_guard lock(mutex_);
  Events& events = labels_[std::string(label)];
  if (events.interval != interval_) {
    events.interval = interval_;
    events.told = 0;
  }
  if (events.told < FewEvents) {
    ++events.told;
    return true;
  }
  ++events.kept;
  keeps_ = true;
  return false;
}

bool LabelTally::nextInterval() {
  const std::lock_guard lock(mutex_);
  ++interval_;
  return keeps_;
}

std::vector<LabelTally::Kept> LabelTally::take() {
  const std::lock_guard lock(mutex_);
  std::vector<Kept> kept;
  for (auto& [label, events] : labels_) {
    if (events.kept > 0) {
      kept.push_back({label, std::exchange(events.kept, 0)});
    }
  }
  keeps_ = false;
  return kept;
}

}  // namespace idempotency::filter
