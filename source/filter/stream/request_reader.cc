#include "source/filter/stream/request_reader.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string_view>
#include <variant>
#include <vector>

#include "source/filter/stream/name_reader.h"
#include "source/fingerprint/hex.h"
#include "source/fingerprint/sha256.h"
#include "source/http/grpc.h"
#include "source/http/header_names.h"
#include "source/message/headers.h"
#include "source/protocol/respond_async.h"

namespace idempotency::filter {
namespace {

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

// RFC 9110, 10.1.1: the value is compared without regard to case.
bool isContinueExpected(const envoy::HeaderLines& headers) {
  const auto expect = headers.get("expect");
  return expect.has_value() && http::toLower(*expect) == "100-continue";
}

protocol::RequestAge ageOf(const envoy::HeaderLines& headers, const protocol::Policy& policy) {
  if (!policy.max_request_age.has_value()) {
    return protocol::RequestAge::Fresh;
  }
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  return protocol::judgeRequestAge(*policy.max_request_age,
                                   linesOf(headers, policy.max_request_age->header),
                                   now.time_since_epoch().count());
}

// A name of any length, as one that an index takes.
std::string bounded(std::string_view name) {
  if (name.size() <= protocol::NameLimit) {
    return std::string(name);
  }
  fingerprint::Sha256 hash;
  hash.update(name);
  return "sha256:" + fingerprint::toHex(hash.finish().value());
}

std::string operationOf(envoy::Stream stream, const protocol::Policy& policy) {
  if (policy.scope == protocol::Scope::Tenant) {
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

// The principal; none if the policy requires one and it cannot be determined.
std::optional<std::string> principalOf(envoy::Stream stream, const envoy::HeaderLines& headers,
                                       const protocol::Policy& policy) {
  if (!policy.principal.has_value()) {
    return std::string();
  }
  return readName(stream, headers, std::span(&*policy.principal, 1));
}

std::optional<std::string> tenantIn(envoy::Stream stream, const envoy::HeaderLines& headers,
                                    std::span<const protocol::NameSource> tenant_sources) {
  std::optional<std::string> tenant = readName(stream, headers, tenant_sources);
  return tenant.has_value() && tenant->size() <= protocol::NameLimit ? tenant : std::nullopt;
}

// A gRPC client has no use for 202.
void readPreferences(const envoy::HeaderLines& headers, const protocol::Policy& policy,
                     RequestReading& request) {
  if (!policy.detached.has_value() ||
      policy.detached->respond_async == protocol::RespondAsync::Never ||
      http::isGrpc(headers.get("content-type").value_or(""))) {
    return;
  }
  std::vector<std::string_view> lines;
  while (const auto line = headers.get(http::PreferHeader, lines.size())) {
    lines.push_back(*line);
  }
  request.preferences = http::parsePreferences(lines);
  request.async_wait = protocol::asyncWait(policy, request.preferences);
}

// Envoy shows HTTP/1.1's Host, too, as `:authority`.
void takePart(std::string_view name, std::string_view value, fingerprint::RequestParts& parts) {
  if (name == ":method") {
    parts.method = value;
  } else if (name == ":scheme") {
    parts.scheme = value;
  } else if (name == ":authority") {
    parts.authority = value;
  } else if (name == ":path") {
    parts.path = value;
  } else if (name == "content-type" && !parts.content_type.has_value()) {
    parts.content_type = value;
  }
}

// The rules' names are sorted: the config sees to that.
bool counts(std::string_view name, const fingerprint::FingerprintRules& rules) {
  return std::find(fingerprint::AlwaysCountedHeaders.begin(),
                   fingerprint::AlwaysCountedHeaders.end(),
                   name) != fingerprint::AlwaysCountedHeaders.end() ||
         std::binary_search(rules.headers.begin(), rules.headers.end(), name);
}

}  // namespace

RequestReading readRequest(envoy::Stream stream, const protocol::Policy& policy,
                           std::span<const protocol::NameSource> tenant_sources) {
  RequestReading request;
  request.facts.method = stream.requestHeaders().get(":method").value_or("");
  if (!policy.covers(request.facts.method)) {
    return request;
  }
  const envoy::HeaderLines headers(stream.requestHeaders());
  request.head = request.facts.method == "HEAD";
  const key::KeyResult key = key::parseKey(linesOf(headers, http::KeyHeader), policy.key);
  if (const auto* refusal = std::get_if<key::KeyRefusal>(&key)) {
    request.facts.key_problem = *refusal;
    return request;
  }
  request.key = std::get<key::Key>(key);
  std::optional<std::string> tenant = tenantIn(stream, headers, tenant_sources);
  std::optional<std::string> principal = principalOf(stream, headers, policy);
  if (tenant.has_value() && principal.has_value()) {
    request.facts.tenant_known = true;
    request.tenant = *std::move(tenant);
    request.principal = *std::move(principal);
  }
  request.facts.age = ageOf(headers, policy);
  request.facts.upgrade = headers.get("upgrade").has_value();
  // Envoy removes the field if it sends the 100 itself. If it is still there, no one will send it.
  request.facts.awaits_continue = isContinueExpected(headers);
  request.facts.body_too_large = message::announcesMoreThan(
      headers.get("content-length").value_or(""), policy.max_request_bytes);
  readPreferences(headers, policy, request);
  return request;
}

std::optional<std::string> tenantOf(envoy::Stream stream,
                                    std::span<const protocol::NameSource> tenant_sources) {
  return tenantIn(stream, envoy::HeaderLines(stream.requestHeaders()), tenant_sources);
}

bool isCrossOrigin(envoy::Stream stream) {
  return stream.requestHeaders().get(http::OriginHeader).has_value();
}

void removeForged(const envoy::Headers& headers) {
  headers.remove(http::ForgeableHeaders);
}

protocol::Attempt attemptIn(const envoy::Headers& headers) {
  const std::string_view text = headers.get(http::AttemptHeader).value_or("");
  protocol::Attempt attempt = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), attempt);
  return error == std::errc() && end == text.data() + text.size() ? attempt : 0;
}

protocol::Identity identityOf(envoy::Stream stream, const protocol::Policy& policy,
                              const RequestReading& request) {
  return {request.tenant, operationOf(stream, policy), std::string(request.key->view())};
}

std::optional<fingerprint::FingerprintResult> fingerprintOf(envoy::Stream stream,
                                                            const protocol::Policy& policy,
                                                            const std::string& principal,
                                                            uint8_t version) {
  const envoy::HeaderLines headers(stream.requestHeaders());
  std::vector<fingerprint::RequestHeader> counted;
  fingerprint::RequestParts parts;
  for (const envoy::Field& line : headers.all()) {
    const std::string_view name = line.nameView();
    takePart(name, line.valueView(), parts);
    if (counts(name, policy.fingerprint)) {
      counted.push_back({name, line.valueView()});
    }
  }
  const std::vector<std::string_view> body = stream.wholeBody(envoy::Direction::Request);
  parts.headers = counted;
  parts.principal = principal;
  parts.body = body;
  return fingerprint::computeFingerprint(parts, policy.fingerprint, version);
}

}  // namespace idempotency::filter
