#include "source/operator_client/refusal.h"

#include <fmt/format.h>
#include <optional>
#include <string_view>

#include "source/operator_api/decode.h"
#include "source/operator_client/server_text.h"

namespace idempotency::operator_client {
namespace {

using operator_api::ApiProblem;
using operator_api::ServerProblem;

constexpr int BadRequest = 400;
constexpr int Unauthorized = 401;
constexpr int NotFound = 404;
constexpr int RequestTimeout = 408;
constexpr int Conflict = 409;
constexpr int ServerError = 500;

bool is(const ServerProblem& problem, ApiProblem kind) {
  return problem.code == operator_api::problemText(kind).code;
}

// None: the server does not say what is wrong in the API's way.
std::optional<ServerProblem> problemOf(const HttpAnswer& answer) {
  if (answer.media_type != "application/problem+json") {
    return std::nullopt;
  }
  auto problem = operator_api::decodeProblem(answer.body);
  return problem.ok() ? std::optional(*std::move(problem)) : std::nullopt;
}

// What to do about it; the server does not know the options of the client.
std::string_view hint(int status) {
  if (status == Unauthorized) {
    return "It asks for credentials: see --header-file and --cert.";
  }
  if (status == NotFound) {
    return "Check the prefix in --url.";
  }
  if (status / 100 == 3) {
    return "It redirects, and redirects are not followed: give the address of the API itself.";
  }
  return "";
}

std::string withHint(std::string text, int status) {
  const std::string_view more = hint(status);
  return more.empty() ? text : fmt::format("{}. {}", text, std::string(more));
}

std::string explainProblem(int status, const ServerProblem& problem) {
  std::string text = fmt::format("{} {}", status, serverText(problem.title));
  if (!problem.detail.empty()) {
    text += ": " + serverText(problem.detail);
  }
  while (text.ends_with('.') || text.ends_with(' ')) {
    text.pop_back();
  }
  return withHint(std::move(text), is(problem, ApiProblem::RecordNotFound) ? 0 : status);
}

}  // namespace

bool isResult(const HttpAnswer& answer) {
  return answer.status == OkStatus && answer.media_type == "application/json";
}

bool isProblem(const HttpAnswer& answer) {
  return problemOf(answer).has_value();
}

bool isProblem(const HttpAnswer& answer, ApiProblem kind) {
  const auto problem = problemOf(answer);
  return problem.has_value() && is(*problem, kind);
}

std::string explain(const HttpAnswer& answer) {
  if (const auto problem = problemOf(answer)) {
    return explainProblem(answer.status, *problem);
  }
  const std::string type =
      answer.media_type.empty() ? "no content type" : serverText(answer.media_type);
  if (answer.status / 100 == 2) {
    return fmt::format(
        "{} with {} instead of JSON: this is not the operator API. Check the prefix in --url",
        answer.status, type);
  }
  std::string text = fmt::format("status {}", answer.status);
  // A proxy's own words; a page of HTML says nothing here.
  if (answer.media_type == "text/plain" && !answer.body.empty()) {
    text += ": " + serverText(answer.body);
  }
  return withHint(std::move(text), answer.status);
}

Effect effectOf(const HttpAnswer& answer) {
  if (isProblem(answer, ApiProblem::StoreUnavailable) ||
      isProblem(answer, ApiProblem::Overloaded)) {
    return Effect::Told;
  }
  const bool is_refusal = answer.status >= BadRequest && answer.status < ServerError;
  // A time limit says nothing about the store, nor does a conflict of somebody else.
  const bool is_open = answer.status == RequestTimeout || answer.status == Conflict;
  return is_refusal && !is_open ? Effect::None : Effect::Perhaps;
}

}  // namespace idempotency::operator_client
