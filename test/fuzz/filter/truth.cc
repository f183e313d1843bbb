#include "test/fuzz/filter/truth.h"

namespace idempotency::fuzz {
namespace {

// Statuses by which a service says that it may be tried again, or that the caller is not allowed.
bool isRetryable(int status) {
  return status == 425 || status == 429 || status == 500 || status == 503;
}
bool isReleased(int status) {
  return status == 401 || status == 403 || status == 407;
}

// Gateways say these when they do not know what became of a request. So a service that says them
// may be a gateway.
bool isDoubtful(int status) {
  return status == 408 || status == 499 || (status >= 500 && !isRetryable(status));
}

Verdicts declaredVerdicts(Declared declared) {
  switch (declared) {
    case Declared::NotRun:
      return {.release = true};
    case Declared::Retryable:
      return {.failure = true};
    case Declared::Completed:
      return {.completion = true};
    case Declared::Nothing:
    case Declared::Unknown:
    case Declared::Nonsense:
      break;
  }
  return {.unknown = true};
}

Verdicts proxyVerdicts(const WholeAnswer& answer) {
  if (answer.not_reached && !answer.sent_before) {
    return {.release = true, .failure = true, .unknown = true};  // All of them keep the promise.
  }
  return {.unknown = true};
}

Verdicts serviceVerdicts(const WholeAnswer& answer) {
  const int status = answer.judged_status;
  if (answer.silent) {
    return {.unknown = true, .completion = true};  // Neither lets anything run twice.
  }
  if (isDoubtful(status)) {
    return {.unknown = true};
  }
  if (!isRetryable(status) && !isReleased(status)) {
    return {.completion = true};
  }
  // It tells nothing of those who were asked before.
  if (answer.sent_before) {
    return {.unknown = true};
  }
  return isRetryable(status) ? Verdicts{.failure = true} : Verdicts{.release = true};
}

Verdicts answerVerdicts(const WholeAnswer& answer) {
  if (answer.declared != Declared::Nothing) {
    return declaredVerdicts(answer.declared);
  }
  return answer.by_proxy ? proxyVerdicts(answer) : serviceVerdicts(answer);
}

// The service has spoken. Not to believe it before its answer is whole keeps the promise, too.
Verdicts cutShortVerdicts(const WholeAnswer& answer) {
  Verdicts may = declaredVerdicts(answer.declared);
  may.unknown = true;
  return may;
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
    case Truth::CutShort:
      return "cut short";
    case Truth::Lost:
      return "lost";
  }
  return "invalid";
}

Verdicts verdicts(Truth truth, const std::optional<WholeAnswer>& answer) {
  switch (truth) {
    case Truth::NotBegun:
    case Truth::NeverSent:
      return {.release = true};
    case Truth::Answered:
    case Truth::CutByEnvoy:
      return answerVerdicts(*answer);
    case Truth::CutShort:
      return cutShortVerdicts(*answer);
    case Truth::Lost:
      return {.unknown = true};
    case Truth::Running:
      break;
  }
  return {};
}

}  // namespace idempotency::fuzz
