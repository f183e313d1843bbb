#include "source/message/answer.h"

#include <fmt/format.h>

#include "source/fingerprint/json_escape.h"
#include "source/http/grpc.h"
#include "source/http/header_names.h"
#include "source/http/http_date.h"
#include "source/http/prefer.h"

namespace idempotency::message {
namespace {

int statusOf(const protocol::Policy& policy, protocol::Problem problem) {
  return problem == protocol::Problem::KeyReused ? policy.mismatch_status
                                                 : protocol::problemText(problem).status;
}

std::string detailOf(const protocol::Policy& policy, const protocol::Answer& answer) {
  std::string detail(protocol::problemText(answer.problem).detail);
  if (answer.key_problem.has_value()) {
    return fmt::format("{} {}", detail, key::describe(*answer.key_problem, policy.key));
  }
  if (answer.original_status.has_value()) {
    return fmt::format("{} The status of that response was {}.", detail, *answer.original_status);
  }
  return detail;
}

std::string quoted(std::string_view text) {
  return fmt::format("\"{}\"", fingerprint::canonicalString(text));
}

// A documentation URL whose fragment identifies the problem, as RFC 9457 requires of a type.
std::string typeOf(const protocol::Policy& policy, protocol::Problem problem) {
  return policy.docs_url.empty()
             ? "about:blank"
             : fmt::format("{}#{}", policy.docs_url, protocol::problemCode(problem));
}

// RFC 9457. `code` and `original_status` are members of our own.
std::string ietfBody(const protocol::Policy& policy, const protocol::Answer& answer) {
  const protocol::ProblemText& text = protocol::problemText(answer.problem);
  std::string body = fmt::format(R"({{"type":{},"title":{},"status":{},"detail":{},"code":{})",
                                 quoted(typeOf(policy, answer.problem)), quoted(text.title),
                                 statusOf(policy, answer.problem), quoted(detailOf(policy, answer)),
                                 quoted(text.code));
  if (answer.original_status.has_value()) {
    body += fmt::format(R"(,"original_status":{})", *answer.original_status);
  }
  return body + "}";
}

std::string stripeBody(const protocol::Policy& policy, const protocol::Answer& answer) {
  const protocol::ProblemText& text = protocol::problemText(answer.problem);
  const std::string_view code = text.stripe_code.empty() ? text.code : text.stripe_code;
  std::string body =
      fmt::format(R"({{"error":{{"type":{},"code":{},"message":{})", quoted(text.stripe_type),
                  quoted(code), quoted(detailOf(policy, answer)));
  if (!policy.docs_url.empty()) {
    body += fmt::format(R"(,"doc_url":{})", quoted(typeOf(policy, answer.problem)));
  }
  return body + "}}";
}

void addBody(const protocol::Policy& policy, const protocol::Answer& answer, HttpAnswer& http) {
  switch (policy.flavor) {
    case protocol::Flavor::Stripe:
      http.headers.emplace_back("content-type", "application/json");
      http.body = stripeBody(policy, answer);
      return;
    case protocol::Flavor::Ietf:
      break;
  }
  // 202 is no problem.
  http.headers.emplace_back("content-type",
                            http.status < 400 ? "application/json" : "application/problem+json");
  http.body = ietfBody(policy, answer);
}

void addGrpcStatus(const protocol::Policy& policy, const protocol::Answer& answer,
                   HttpAnswer& http) {
  http.status = 200;
  http.headers.emplace_back("content-type", "application/grpc");
  http.headers.emplace_back("grpc-status",
                            fmt::format("{}", protocol::problemText(answer.problem).grpc_status));
  http.headers.emplace_back("grpc-message", http::encodeGrpcMessage(fmt::format(
                                                "{}: {}", protocol::problemCode(answer.problem),
                                                detailOf(policy, answer))));
}

}  // namespace

HttpAnswer renderAnswer(const protocol::Policy& policy, const protocol::Answer& answer,
                        const AnswerContext& context) {
  HttpAnswer http;
  if (context.grpc) {
    addGrpcStatus(policy, answer, http);
  } else {
    http.status = statusOf(policy, answer.problem);
    addBody(policy, answer, http);
  }
  if (answer.retry_after.has_value()) {
    http.headers.emplace_back("retry-after", fmt::format("{}", answer.retry_after->count()));
  }
  if (!context.location.empty()) {
    http.headers.emplace_back("location", context.location);
  }
  if (!context.preference_applied.empty()) {
    http.headers.emplace_back(http::PreferenceAppliedHeader, context.preference_applied);
  }
  if (context.no_store) {
    http.headers.emplace_back("cache-control", "no-store");
  }
  if (!policy.docs_url.empty()) {
    http.headers.emplace_back(
        "link", fmt::format("<{}>; rel=\"describedby\"; type=\"text/html\"", policy.docs_url));
  }
  if (context.expires_at.has_value()) {
    http.headers.emplace_back(http::ExpiresHeader, http::formatHttpDate(*context.expires_at));
  }
  return http;
}

}  // namespace idempotency::message
