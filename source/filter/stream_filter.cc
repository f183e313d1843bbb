#include "source/filter/stream_filter.h"

#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <variant>
#include <vector>

#include "source/envoy/process.h"
#include "source/filter/name_reader.h"
#include "source/key/key.h"
#include "source/protocol/answer.h"
#include "source/protocol/grpc.h"
#include "source/protocol/overloaded.h"

namespace idempotency {
namespace {

constexpr std::string_view KeyHeader = "idempotency-key";
constexpr std::string_view MetadataNamespace = "envoy-idempotency";

// The header's lines, at most two: more tell nothing that two do not.
std::vector<std::string_view> keyLines(const envoy::Headers& headers) {
  std::vector<std::string_view> lines;
  while (lines.size() < 2) {
    const auto line = headers.get(KeyHeader, lines.size());
    if (!line.has_value()) {
      break;
    }
    lines.push_back(*line);
  }
  return lines;
}

std::vector<envoy::Field> toFields(const FieldList& list) {
  std::vector<envoy::Field> fields;
  fields.reserve(list.size());
  for (const auto& [name, value] : list) {
    fields.emplace_back(name, value);
  }
  return fields;
}

bool isCoveredByDefault(std::string_view method) {
  static const std::vector<std::string> methods = Policy().methods;
  return std::find(methods.begin(), methods.end(), method) != methods.end();
}

}  // namespace

envoy::HeadersAction StreamFilter::onRequestHeaders(bool /*end*/) {
  const auto* route = static_cast<const RoutePolicy*>(envoy::routeConfig(stream()));
  const SharedPolicy& policy = config_.policyFor(route);
  if (!policy.ok()) {
    envoy::log(envoy::LogLevel::Error,
               fmt::format("idempotency: request refused, the route's policy contradicts the "
                           "filter's: {}",
                           std::string(policy.status().message())));
    return answer(Policy(), Answer{Problem::ConfigInvalid});
  }
  const RequestFacts facts = requestFacts(**policy);
  return std::visit(Overloaded{
                        [&](const Answer& refusal) { return answer(**policy, refusal); },
                        [&](const Pass& pass_on) { return pass(facts.method, pass_on.reason); },
                        [&](const Claim&) {
                          stream().increment(config_.stats().covered);
                          stream().setMetadata(MetadataNamespace, "outcome", "unclaimed");
                          return envoy::HeadersAction::Continue;
                        },
                    },
                    decideRequest(**policy, facts));
}

RequestFacts StreamFilter::requestFacts(const Policy& policy) const {
  RequestFacts facts;
  facts.method = stream().requestHeaders().get(":method").value_or("");
  if (!policy.covers(facts.method)) {
    return facts;  // Nothing else counts, so nothing else is parsed.
  }
  const std::vector<std::string_view> lines = keyLines(stream().requestHeaders());
  const KeyResult key = parseKey(lines, policy.key);
  if (const auto* problem = std::get_if<KeyProblem>(&key)) {
    facts.key_problem = *problem;
  }
  facts.tenant_known = readName(stream(), config_.config().tenant_sources).has_value();
  return facts;
}

envoy::HeadersAction StreamFilter::pass(std::string_view method, PassReason reason) {
  // A method that would be covered by default, on a route that enforces nothing: worth knowing.
  if (reason == PassReason::Uncovered && isCoveredByDefault(method)) {
    const auto route = stream().text(envoy::Attribute::RouteName).value_or("");
    stream().increment(config_.stats().unprotected, {route.empty() ? "unnamed" : route});
  }
  return envoy::HeadersAction::Continue;
}

envoy::HeadersAction StreamFilter::answer(const Policy& policy, const Answer& answer) {
  count(answer.problem);
  const std::string_view code = problemCode(answer.problem);
  stream().setMetadata(MetadataNamespace, "outcome", code);
  AnswerContext context;
  context.grpc = isGrpc(stream().requestHeaders().get("content-type").value_or(""));
  const HttpAnswer rendered = renderAnswer(policy, answer, context);
  const std::vector<envoy::Field> headers = toFields(rendered.headers);
  stream().sendLocalReply(static_cast<uint32_t>(rendered.status), headers, rendered.body, code);
  return envoy::HeadersAction::StopIteration;
}

void StreamFilter::count(Problem problem) const {
  const Stats& stats = config_.stats();
  switch (problem) {
    case Problem::KeyMissing:
      stream().increment(stats.key_missing);
      return;
    case Problem::KeyInvalid:
      stream().increment(stats.key_invalid);
      return;
    case Problem::TenantMissing:
      stream().increment(stats.tenant_missing);
      return;
    case Problem::ConfigInvalid:
      stream().increment(stats.config_invalid);
      return;
    case Problem::RequestTooLarge:
    case Problem::RequestTooOld:
    case Problem::StoreUnavailable:
    case Problem::KeyReused:
    case Problem::InProgress:
    case Problem::Accepted:
    case Problem::OutcomeUnknown:
    case Problem::ResponseUnavailable:
    case Problem::KeyExpired:
    case Problem::QuotaExceeded:
    case Problem::RecordUnreadable:
      stream().increment(stats.request_refused);
      return;
  }
}

}  // namespace idempotency
