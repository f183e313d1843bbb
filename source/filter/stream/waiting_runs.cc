#include "source/filter/stream/waiting_runs.h"

#include <fmt/format.h>
#include <utility>

#include "source/store/store.h"

namespace idempotency::filter {
namespace {

// The name finds the entry, the secret opens it.
constexpr size_t NameSize = 16;
constexpr size_t SecretSize = 16;

// Takes the same time wherever they differ.
bool isEqualInConstantTime(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) {
    return false;
  }
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

}  // namespace

WaitingRuns& WaitingRuns::instance() {
  static auto* const runs = new WaitingRuns;  // Never destroyed: workers may still use it.
  return *runs;
}

std::string WaitingRuns::add(WaitingRun run) {
  const protocol::Attempt name = store::newAttempt();
  const protocol::Attempt secret = store::newAttempt();
  if (name == 0 || secret == 0) {
    return "";
  }
  std::string token = fmt::format("{:016x}", name);
  Entry entry{fmt::format("{:016x}", secret), std::move(run)};
  std::string whole = token + entry.secret;
  const std::lock_guard lock(mutex_);
  entries_.emplace(std::move(token), std::move(entry));
  return whole;
}

std::optional<WaitingRun> WaitingRuns::take(std::string_view token) {
  if (token.size() != NameSize + SecretSize) {
    return std::nullopt;
  }
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(token.substr(0, NameSize));
  if (found == entries_.end() ||
      !isEqualInConstantTime(found->second.secret, token.substr(NameSize))) {
    return std::nullopt;
  }
  std::optional<WaitingRun> run = std::move(found->second.run);
  entries_.erase(found);
  return run;
}

void WaitingRuns::addRedirected(protocol::Attempt attempt, WaitingRun run) {
  const std::lock_guard lock(mutex_);
  redirected_[attempt] = std::move(run);
}

std::optional<WaitingRun> WaitingRuns::takeRedirected(protocol::Attempt attempt) {
  const std::lock_guard lock(mutex_);
  const auto found = redirected_.find(attempt);
  if (found == redirected_.end()) {
    return std::nullopt;
  }
  std::optional<WaitingRun> run = std::move(found->second);
  redirected_.erase(found);
  return run;
}

}  // namespace idempotency::filter
