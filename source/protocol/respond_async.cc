#include "source/protocol/respond_async.h"

#include <algorithm>

namespace idempotency::protocol {
namespace {

bool isWanted(const DetachedRules& rules, const http::Preferences& preferences) {
  switch (rules.respond_async) {
    case RespondAsync::Always:
      return true;
    case RespondAsync::OnRequest:
      return preferences.respond_async;
    case RespondAsync::Never:
      break;
  }
  return false;
}

}  // namespace

std::optional<std::chrono::milliseconds> asyncWait(const Policy& policy,
                                                   const http::Preferences& preferences) {
  if (!policy.detached.has_value() || !isWanted(*policy.detached, preferences)) {
    return std::nullopt;
  }
  // Without `wait`, the client does not want to wait.
  const std::chrono::milliseconds wanted = preferences.wait.value_or(std::chrono::seconds(0));
  return std::min(wanted, policy.detached->max_wait);
}

}  // namespace idempotency::protocol
