#include "source/operator_api/routing.h"

#include <algorithm>
#include <utility>

#include "source/operator_api/record_id.h"

namespace idempotency::operator_api {
namespace {

constexpr std::string_view Version = "/v1/";
constexpr std::string_view RecordsFolder = "records/";

Routing found(Endpoint endpoint) {
  Routing routing;
  routing.target.emplace();
  routing.target->endpoint = endpoint;
  return routing;
}

// "ID" or "ID/change".
Routing routeRecord(std::string_view rest) {
  const size_t slash = std::min(rest.find('/'), rest.size());
  const bool is_change = slash < rest.size();
  const auto kind = is_change ? parseChangeKind(rest.substr(slash + 1)) : std::nullopt;
  if (is_change && !kind.has_value()) {
    return {};
  }
  auto identity = parseRecordId(rest.substr(0, slash));
  if (!identity.has_value()) {
    return {std::nullopt, ApiProblem::RecordNotFound};
  }
  Routing routing = found(is_change ? Endpoint::Change : Endpoint::Record);
  routing.target->identity = *std::move(identity);
  routing.target->change = kind.value_or(ChangeKind::Resolve);
  return routing;
}

Routing routeVersion1(std::string_view rest) {
  if (rest == "healthz") {
    return found(Endpoint::Health);
  }
  if (rest == "summary") {
    return found(Endpoint::Summary);
  }
  if (rest == "records") {
    return found(Endpoint::Records);
  }
  if (rest == "audit") {
    return found(Endpoint::Audit);
  }
  if (rest == "tenants/purge") {
    return found(Endpoint::Purge);
  }
  return rest.starts_with(RecordsFolder) ? routeRecord(rest.substr(RecordsFolder.size()))
                                         : Routing();
}

}  // namespace

std::string_view endpointName(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::Health:
      return "healthz";
    case Endpoint::Summary:
      return "summary";
    case Endpoint::Records:
      return "records";
    case Endpoint::Record:
      return "record";
    case Endpoint::Change:
      return "change";
    case Endpoint::Purge:
      return "purge";
    case Endpoint::Audit:
      return "audit";
    case Endpoint::Webhook:
      return "webhook";
  }
  return "other";
}

Routing route(std::string_view path, std::string_view prefix, std::string_view webhook_path) {
  const size_t mark = std::min(path.find('?'), path.size());
  const std::string_view query = path.substr(std::min(mark + 1, path.size()));
  path = path.substr(0, mark);
  Routing routing;
  if (!webhook_path.empty() && path == webhook_path) {
    routing = found(Endpoint::Webhook);
  } else if (path.starts_with(prefix) && path.substr(prefix.size()).starts_with(Version)) {
    routing = routeVersion1(path.substr(prefix.size() + Version.size()));
  }
  if (routing.target.has_value()) {
    routing.target->query = query;
  }
  return routing;
}

bool takesPost(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::Change:
    case Endpoint::Purge:
    case Endpoint::Webhook:
      return true;
    case Endpoint::Health:
    case Endpoint::Summary:
    case Endpoint::Records:
    case Endpoint::Record:
    case Endpoint::Audit:
      return false;
  }
  return false;
}

std::string_view allowedMethods(Endpoint endpoint) {
  return takesPost(endpoint) ? "POST, OPTIONS" : "GET, HEAD, OPTIONS";
}

}  // namespace idempotency::operator_api
