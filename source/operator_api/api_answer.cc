#include "source/operator_api/api_answer.h"

#include <utility>

namespace idempotency::operator_api {
namespace {

constexpr std::string_view RetryAfterSeconds = "1";

// No cache keeps an answer, and no browser takes it for something else.
ApiAnswer withBody(int status, std::string_view media_type, std::string body) {
  return {status,
          {{"content-type", std::string(media_type)},
           {"cache-control", "no-store"},
           {"x-content-type-options", "nosniff"}},
          std::move(body),
          std::nullopt};
}

}  // namespace

ApiAnswer jsonAnswer(std::string json) {
  constexpr int Ok = 200;
  return withBody(Ok, "application/json", std::move(json));
}

ApiAnswer problemAnswer(ApiProblem problem, std::string_view detail,
                        const std::optional<store::ListedRecord>& record) {
  constexpr int Unavailable = 503;
  const int status = problemText(problem).status;
  ApiAnswer answer =
      withBody(status, "application/problem+json", encodeProblem(problem, detail, record));
  answer.problem = problem;
  if (status == Unavailable) {
    answer.headers.emplace_back("retry-after", RetryAfterSeconds);
  }
  return answer;
}

ApiAnswer optionsAnswer(std::string_view allow) {
  constexpr int NoContent = 204;
  return {NoContent, {{"allow", std::string(allow)}, {"cache-control", "no-store"}}, ""};
}

ApiAnswer methodAnswer(std::string_view allow) {
  ApiAnswer answer = problemAnswer(ApiProblem::MethodNotAllowed);
  answer.headers.emplace_back("allow", allow);
  return answer;
}

}  // namespace idempotency::operator_api
