#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace idempotency::filter {

// The records without an outcome in this process's gauges, by operation. Gauges exist as long as
// Envoy, so the number of labels is limited: the first operations that appear get their own label,
// all others share `other`. An empty operation is `none`.
//
// Envoy has one value for all backends of the process, and it can only be set: this adds up what
// each of them reports. Any thread.
class UnsettledGauges {
public:
  static constexpr size_t MostNames = 100;

  struct Row {
    std::string operation;
    uint64_t records = 0;
    uint64_t oldest_seconds = 0;
    uint64_t dead_letters = 0;
  };
  using Show = std::function<void(std::string_view label, const Row& sum)>;

  // Those of the process. Never destroyed.
  static UnsettledGauges& instance();

  // From now on this owner has these rows.
  void set(const void* owner, std::vector<Row> rows);
  // Shows every label that there has been.
  void show(const Show& show);

private:
  std::string_view labelOf(const std::string& operation);

  std::mutex mutex_;
  std::map<const void*, std::vector<Row>> rows_;  // Guarded by mutex_.
  std::map<std::string, Row, std::less<>> sums_;  // By label; never shrinks. Guarded by mutex_.
};

}  // namespace idempotency::filter
