#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace idempotency {

// A counter with a label is dear in Envoy, which puts its name together at each event. So only a
// few events of a label go there one by one; where there are more, the rest is kept here until
// somebody takes it. Any thread.
//
// Labels are few: a map that has seen one keeps it.
class LabelTally {
public:
  // So many events of a label in an interval are told one by one.
  static constexpr uint32_t FewEvents = 50;

  // An event. True: the caller tells Envoy; false: it is kept.
  [[nodiscard]] bool add(std::string_view label);
  // Another interval begins. True: something is kept.
  bool nextInterval();

  struct Kept {
    std::string label;
    uint64_t events = 0;
  };
  // What is kept is the caller's to tell.
  std::vector<Kept> take();

private:
  struct Events {
    uint64_t interval = 0;
    uint32_t told = 0;  // In that interval.
    uint64_t kept = 0;
  };

  std::mutex mutex_;
  // All guarded by mutex_.
  absl::flat_hash_map<std::string, Events> labels_;
  uint64_t interval_ = 0;
  bool keeps_ = false;
};

}  // namespace idempotency
