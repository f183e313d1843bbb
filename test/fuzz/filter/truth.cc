#include "test/fuzz/filter/truth.h"

namespace idempotency::fuzz {
namespace {

// The lists that policies have where they say nothing; here in words of their own.
bool isRetryable(int status) {
  return status == 408 || status == 425 || status == 429 || status >= 500;
}
bool isReleased(int status) {
  return status == 401 || status == 403 || status == 407;
}

bool hasStatus(Truth truth) {
  return truth == Truth::Answered || truth == Truth::CutByEnvoy;
}

// Where Envoy itself tried more than once, its last answer tells nothing of the tries before.
bool isReleasedFor(const WholeAnswer& answer, bool retried) {
  return isReleased(answer.judged_status) && (answer.attempts > 1) == retried;
}

}  // namespace

std::string_view name(Truth truth) {
  switch (truth) {
    case Truth::NotBegun:
      return "not begun";
    case Truth::Running:
      return "running";
    case Truth::NeverSent:
      return "never sent";
    case Truth::Answered:
      return "answered";
    case Truth::CutByEnvoy:
      return "cut by Envoy";
    case Truth::Lost:
      return "lost";
  }
  return "invalid";
}

bool allowsRelease(Truth truth, const std::optional<WholeAnswer>& answer) {
  return truth == Truth::NotBegun || truth == Truth::NeverSent ||
         (hasStatus(truth) && isReleasedFor(*answer, false));
}

bool allowsFailure(Truth truth, const std::optional<WholeAnswer>& answer) {
  return hasStatus(truth) && isRetryable(answer->judged_status);
}

bool allowsUnknown(Truth truth, const std::optional<WholeAnswer>& answer) {
  return truth == Truth::Lost || (hasStatus(truth) && isReleasedFor(*answer, true));
}

bool allowsCompletion(Truth truth, const std::optional<WholeAnswer>& answer) {
  return hasStatus(truth) && !isRetryable(answer->judged_status) &&
         !isReleased(answer->judged_status);
}

}  // namespace idempotency::fuzz
