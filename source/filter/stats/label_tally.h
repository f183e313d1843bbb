#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace idempotency::filter {

// A labelled counter is expensive in Envoy, which builds its name for each event. So only a few
// events per label are passed on one by one; the others are added up here until they are taken. Any
// thread.
//
// There are few labels: a map keeps each one that it has seen.
class LabelTally {
public:
  // So many events of a label per interval are passed on one by one.
  static constexpr uint32_t FewEvents = 50;

  // An event. True: the caller passes it to Envoy; false: it is added up here.
  [[nodiscard]] bool add(std::string_view label);
  // Starts a new interval. True if there are events to take.
  bool nextInterval();

  struct Kept {
    std::string label;
    uint64_t events = 0;
  };
  // Takes the added-up events; the caller passes them to Envoy.
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

}  // namespace idempotency::filter
