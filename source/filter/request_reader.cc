#include "source/filter/request_reader.h"

#include <charconv>
#include <chrono>
#include <string_view>
#include <variant>
#include <vector>

#include "source/filter/name_reader.h"
#include "source/fingerprint/hex.h"
#include "source/fingerprint/sha256.h"
#include "source/protocol/header_names.h"

namespace idempotency {
namespace {

// The longest tenant and operation that go into an identity as they are.
constexpr size_t LongestName = 255;

// A header's lines, at most two: more tell nothing that two do not.
std::vector<std::string_view> linesOf(const envoy::HeaderLines& headers, std::string_view name) {
  std::vector<std::string_view> lines;
  while (lines.size() < 2) {
    const auto line = headers.get(name, lines.size());
    if (!line.has_value()) {
      break;
    }
    lines.push_back(*line);
  }
  return lines;
}

bool isLongerThan(const envoy::HeaderLines& headers, uint64_t limit) {
  const std::string_view text = headers.get("content-length").value_or("");
  uint64_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  return error == std::errc::result_out_of_range || (error == std::errc() && length > limit);
}

RequestAge ageOf(const envoy::HeaderLines& headers, const Policy& policy) {
  if (!policy.max_request_age.has_value()) {
    return RequestAge::Fresh;
  }
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  return judgeRequestAge(*policy.max_request_age, linesOf(headers, policy.max_request_age->header),
                         now.time_since_epoch().count());
}

// A name of any length, as one that an index takes.
std::string bounded(std::string_view name) {
  if (name.size() <= LongestName) {
    return std::string(name);
  }
  Sha256 hash;
  hash.update(name);
  return "sha256:" + toHex(hash.finish().value());
}

std::string operationOf(envoy::Stream stream, const Policy& policy) {
  if (policy.scope == Scope::Tenant) {
    return {};
  }
  if (!policy.operation.empty()) {
    return policy.operation;
  }
  if (const auto route = stream.text(envoy::Attribute::RouteName).value_or(""); !route.empty()) {
    return bounded(route);
  }
  const std::string_view path = stream.requestHeaders().get(":path").value_or("");
  return bounded(path.substr(0, path.find('?')));
}

// Who acts; none: the policy wants to know and it cannot be told.
std::optional<std::string> principalOf(envoy::Stream stream, const envoy::HeaderLines& headers,
                                       const Policy& policy) {
  if (!policy.principal.has_value()) {
    return std::string();
  }
  return readName(stream, headers, std::span(&*policy.principal, 1));
}

}  // namespace

RequestReading readRequest(envoy::Stream stream, const Policy& policy,
                           std::span<const NameSource> tenant_sources) {
  RequestReading request;
  request.facts.method = stream.requestHeaders().get(":method").value_or("");
  if (!policy.covers(request.facts.method)) {
    return request;
  }
  const envoy::HeaderLines headers(stream.requestHeaders());
  request.head = request.facts.method == "HEAD";
  const KeyResult key = parseKey(linesOf(headers, KeyHeader), policy.key);
  if (const auto* problem = std::get_if<KeyProblem>(&key)) {
    request.facts.key_problem = *problem;
    return request;
  }
  request.key = std::get<Key>(key);
  std::optional<std::string> tenant = readName(stream, headers, tenant_sources);
  std::optional<std::string> principal = principalOf(stream, headers, policy);
  if (tenant.has_value() && tenant->size() <= LongestName && principal.has_value()) {
    request.facts.tenant_known = true;
    request.tenant = *std::move(tenant);
    request.principal = *std::move(principal);
  }
  request.facts.age = ageOf(headers, policy);
  request.facts.upgrade = headers.get("upgrade").has_value();
  request.facts.body_too_large = isLongerThan(headers, policy.max_request_bytes);
  return request;
}

Identity identityOf(envoy::Stream stream, const Policy& policy, const RequestReading& request) {
  return {request.tenant, operationOf(stream, policy), std::string(request.key->view())};
}

std::optional<FingerprintResult> fingerprintOf(envoy::Stream stream, const Policy& policy,
                                               const std::string& principal, envoy::Within within,
                                               uint8_t version) {
  const envoy::HeaderLines headers(stream.requestHeaders());
  std::vector<RequestHeader> counted;
  for (const std::string& name : policy.fingerprint.headers) {
    for (size_t i = 0;; ++i) {
      const auto value = headers.get(name, i);
      if (!value.has_value()) {
        break;
      }
      counted.push_back({name, *value});
    }
  }
  const std::vector<std::string_view> body = stream.wholeBody(envoy::Direction::Request, within);
  RequestParts parts;
  parts.method = headers.get(":method").value_or("");
  parts.path = headers.get(":path").value_or("");
  parts.content_type = headers.get("content-type").value_or("");
  parts.headers = counted;
  parts.principal = principal;
  parts.body = body;
  return computeFingerprint(parts, policy.fingerprint, version);
}

}  // namespace idempotency
