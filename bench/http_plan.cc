#include "bench/http_plan.h"

#include <algorithm>
#include <fmt/format.h>

#include "bench/json_bodies.h"

namespace idempotency::bench {
namespace {

// Odd: spreads keys over the whole index, as clients' random ones are, and meets none twice.
constexpr uint64_t Spread = 0x9E3779B97F4A7C15;

// A JSON document of just this size; white space at the end is part of none of its values.
std::string jsonOfSize(size_t size) {
  if (size == 0) {
    return "";
  }
  std::string text = orderBody(size);
  if (text.size() > size) {
    text = R"({"amount":1999,"currency":"EUR"})";
  }
  text.append(size - std::min(size, text.size()), ' ');
  return text;
}

uint32_t percentile(std::vector<uint32_t>& values, double share) {
  if (values.empty()) {
    return 0;
  }
  const auto at =
      values.begin() + static_cast<ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

Plan::Plan(PlanOptions options)
    : options_(std::move(options)), body_(jsonOfSize(options_.body)), random_(1) {
  latencies_.reserve(1 << 20);
}

void Plan::start() {
  begin_ = Clock::now();
  end_ = begin_ + std::chrono::duration_cast<Clock::duration>(
                      std::chrono::duration<double>(options_.seconds));
}

bool Plan::take() {
  if (failed() || (options_.count > 0 && taken_ >= options_.count) || Clock::now() >= end_) {
    return false;
  }
  ++taken_;
  return true;
}

std::string Plan::nextKey() {
  const bool fresh = options_.pool == 0 ||
                     (options_.duplicates > 0 &&
                      std::uniform_real_distribution<>(0, 1)(random_) >= options_.duplicates);
  if (fresh) {
    return fmt::format("\"{:016x}-{}\"", ++fresh_ * Spread, options_.prefix);
  }
  return fmt::format("\"{:016x}-pool-{}\"", (pooled_++ % options_.pool) * Spread, options_.prefix);
}

void Plan::onAnswer(Clock::time_point sent, int status, bool has_header) {
  const auto now = Clock::now();
  ++answered_;
  in_time_ += now <= end_ ? 1 : 0;
  latencies_.push_back(static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(now - sent).count()));
  if (status != options_.status) {
    onFailure(fmt::format("status {} instead of {}", status, options_.status));
  } else if (!has_header) {
    onFailure(fmt::format("an answer without the header {}", options_.header));
  }
}

void Plan::onFailure(std::string_view reason) {
  if (failure_.empty()) {
    failure_ = reason;
  }
}

std::string Plan::report() {
  if (failed()) {
    return fmt::format("{{\"failure\": \"{}\", \"requests\": {}}}", failure_, answered_);
  }
  // A run that its count ended has no full time.
  const auto last = options_.count > 0 ? std::min(Clock::now(), end_) : end_;
  const double seconds = std::chrono::duration<double>(last - begin_).count();
  const uint32_t p50 = percentile(latencies_, 0.5);
  const uint32_t p99 = percentile(latencies_, 0.99);
  return fmt::format(
      "{{\"requests\": {}, \"rate\": {:.1f}, \"p50_us\": {}, \"p99_us\": {}, "
      "\"max_us\": {}}}",
      answered_, static_cast<double>(in_time_) / seconds, p50, p99, percentile(latencies_, 1));
}

}  // namespace idempotency::bench
