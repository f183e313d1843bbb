#include "source/filter/stats/unsettled_gauges.h"

#include <algorithm>
#include <utility>

namespace idempotency::filter {
namespace {

constexpr std::string_view Other = "other";
constexpr std::string_view None = "none";

}  // namespace

UnsettledGauges& UnsettledGauges::instance() {
  static auto* const gauges = new UnsettledGauges;
  return *gauges;
}

void UnsettledGauges::set(const void* owner, std::vector<Row> rows) {
  const std::lock_guard lock(mutex_);
  if (rows.empty()) {
    rows_.erase(owner);
  } else {
    rows_[owner] = std::move(rows);
  }
}

void UnsettledGauges::show(const Show& show) {
  const std::lock_guard lock(mutex_);
  for (auto& [label, sum] : sums_) {
    sum = Row();
  }
  for (const auto& [owner, rows] : rows_) {
    for (const Row& row : rows) {
      Row& sum = sums_[std::string(labelOf(row.operation))];
      sum.records += row.records;
      sum.dead_letters += row.dead_letters;
      sum.oldest_seconds = std::max(sum.oldest_seconds, row.oldest_seconds);
    }
  }
  for (const auto& [label, sum] : sums_) {
    show(label, sum);
  }
}

std::string_view UnsettledGauges::labelOf(const std::string& operation) {
  if (operation.empty()) {
    return None;
  }
  return sums_.size() < MostNames || sums_.contains(operation) ? std::string_view(operation)
                                                               : Other;
}

}  // namespace idempotency::filter
