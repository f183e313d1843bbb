#include "source/protocol/answer.h"

#include <fmt/format.h>

#include "source/fingerprint/json_escape.h"
#include "source/protocol/grpc.h"
#include "source/protocol/header_names.h"
#include "source/protocol/http_date.h"

namespace idempotency {
namespace {

int statusOf(const Policy& policy, Problem problem) {
  return problem == Problem::KeyReused ? policy.mismatch_status : problemText(problem).status;
}

std::string detailOf(const Answer& answer) {
  std::string detail(problemText(answer.problem).detail);
  if (answer.key_problem.has_value()) {
    return fmt::format("{} {}", detail, describe(*answer.key_problem));
  }
  if (answer.original_status.has_value()) {
    return fmt::format("{} The status of that response was {}.", detail, *answer.original_status);
  }
  return detail;
}

std::string quoted(std::string_view text) {
  return fmt::format("\"{}\"", canonicalString(text));
}

// A documentation URL whose fragment tells the problems apart, as RFC 9457 wants of a type.
std::string typeOf(const Policy& policy, Problem problem) {
  return policy.docs_url.empty() ? "about:blank"
                                 : fmt::format("{}#{}", policy.docs_url, problemCode(problem));
}

// RFC 9457. `code` and `original_status` are members of our own.
std::string ietfBody(const Policy& policy, const Answer& answer) {
  const ProblemText& text = problemText(answer.problem);
  std::string body =
      fmt::format(R"({{"type":{},"title":{},"status":{},"detail":{},"code":{})",
                  quoted(typeOf(policy, answer.problem)), quoted(text.title),
                  statusOf(policy, answer.problem), quoted(detailOf(answer)), quoted(text.code));
  if (answer.original_status.has_value()) {
    body += fmt::format(R"(,"original_status":{})", *answer.original_status);
  }
  return body + "}";
}

std::string stripeBody(const Policy& policy, const Answer& answer) {
  const ProblemText& text = problemText(answer.problem);
  const std::string_view code = text.stripe_code.empty() ? text.code : text.stripe_code;
  std::string body = fmt::format(R"({{"error":{{"type":{},"code":{},"message":{})",
                                 quoted(text.stripe_type), quoted(code), quoted(detailOf(answer)));
  if (!policy.docs_url.empty()) {
    body += fmt::format(R"(,"doc_url":{})", quoted(typeOf(policy, answer.problem)));
  }
  return body + "}}";
}

void addBody(const Policy& policy, const Answer& answer, HttpAnswer& http) {
  switch (policy.flavor) {
    case Flavor::Stripe:
      http.headers.emplace_back("content-type", "application/json");
      http.body = stripeBody(policy, answer);
      return;
    case Flavor::Ietf:
      break;
  }
  // 202 is no problem.
  http.headers.emplace_back("content-type",
                            http.status < 400 ? "application/json" : "application/problem+json");
  http.body = ietfBody(policy, answer);
}

void addGrpcStatus(const Answer& answer, HttpAnswer& http) {
  http.status = 200;
  http.headers.emplace_back("content-type", "application/grpc");
  http.headers.emplace_back("grpc-status",
                            fmt::format("{}", problemText(answer.problem).grpc_status));
  http.headers.emplace_back(
      "grpc-message",
      encodeGrpcMessage(fmt::format("{}: {}", problemCode(answer.problem), detailOf(answer))));
}

}  // namespace

HttpAnswer renderAnswer(const Policy& policy, const Answer& answer, const AnswerContext& context) {
  HttpAnswer http;
  if (context.grpc) {
    addGrpcStatus(answer, http);
  } else {
    http.status = statusOf(policy, answer.problem);
    addBody(policy, answer, http);
  }
  if (answer.retry_after.has_value()) {
    http.headers.emplace_back("retry-after", fmt::format("{}", answer.retry_after->count()));
  }
  if (!policy.docs_url.empty()) {
    http.headers.emplace_back(
        "link", fmt::format("<{}>; rel=\"describedby\"; type=\"text/html\"", policy.docs_url));
  }
  if (context.expires_at.has_value()) {
    http.headers.emplace_back(ExpiresHeader, formatHttpDate(*context.expires_at));
  }
  return http;
}

}  // namespace idempotency
