#include "test/fuzz/filter/requests.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string_view>

namespace idempotency::fuzz {
namespace {

std::optional<protocol::Problem> refusalOf(Quirk quirk, bool optional) {
  switch (quirk) {
    case Quirk::NoKey:
      return optional ? std::nullopt : std::optional(protocol::Problem::KeyMissing);
    case Quirk::BadKey:
    case Quirk::TwoKeys:
      return protocol::Problem::KeyInvalid;
    case Quirk::NoTenant:
      return protocol::Problem::TenantMissing;
    case Quirk::Upgrade:
      return protocol::Problem::UpgradeRefused;
    case Quirk::LongAnnounced:
      return protocol::Problem::RequestTooLarge;
    case Quirk::None:
    case Quirk::NoBody:
    case Quirk::Get:
    case Quirk::Patch:
    case Quirk::Grpc:
    case Quirk::Forged:
    case Quirk::Denied:
      break;
  }
  return std::nullopt;
}

void addKey(RequestPlan& plan) {
  if (plan.quirk == Quirk::NoKey) {
    return;
  }
  // The standard asks for quotes.
  const char* const form = plan.quirk == Quirk::BadKey ? "{}" : "\"{}\"";
  const std::string key = fmt::format(fmt::runtime(form), keyName(plan.key));
  plan.headers.emplace_back("idempotency-key", key);
  if (plan.quirk == Quirk::TwoKeys) {
    plan.headers.emplace_back("idempotency-key", key);
  }
}

void addOdd(RequestPlan& plan) {
  if (plan.quirk == Quirk::Upgrade) {
    plan.headers.emplace_back("upgrade", "websocket");
  } else if (plan.quirk == Quirk::LongAnnounced) {
    plan.headers.emplace_back("content-length", "1001");
  } else if (plan.quirk == Quirk::Forged) {
    plan.headers.emplace_back("idempotency-attempt", "42");
    plan.headers.emplace_back("idempotency-recovery-point", "charged");
  }
}

// JSON in its canonical form, as far as pieces can make it; all else as it is.
std::string canonical(const RequestText& request) {
  if (request.content_type != "application/json") {
    return request.body;
  }
  std::string stripped = request.body;
  std::erase(stripped, ' ');
  const bool json = stripped == R"({"amount":1})" || stripped == R"({"amount":2})";
  return json ? stripped : request.body;
}

}  // namespace

std::string keyName(size_t key) {
  return fmt::format("fuzz-key-0000000{}", key);
}

RequestPlan planRequest(const RoutePlan& route, size_t key, Quirk quirk) {
  RequestPlan plan;
  plan.route = &route;
  plan.key = key;
  plan.quirk = quirk;
  plan.method = quirk == Quirk::Get ? "GET" : quirk == Quirk::Patch ? "PATCH" : "POST";
  plan.content_type = quirk == Quirk::Grpc ? "application/grpc" : "application/json";
  plan.identity = {Tenant, Operation, keyName(key)};
  plan.headers = {
      {":method", plan.method}, {":path", "/payments"}, {"content-type", plan.content_type}};
  if (quirk != Quirk::NoTenant) {
    plan.headers.emplace_back("x-tenant", Tenant);
  }
  addKey(plan);
  addOdd(plan);
  if (!route.off && quirk != Quirk::Get && quirk != Quirk::Denied) {
    plan.refusal = refusalOf(quirk, route.optional);
    plan.covered = !plan.refusal.has_value() && quirk != Quirk::NoKey;
  }
  return plan;
}

bool sameRequest(const RequestText& a, const RequestText& b) {
  if (a.any_request || b.any_request) {
    return a.any_request == b.any_request;
  }
  return a.method == b.method && a.content_type == b.content_type && canonical(a) == canonical(b);
}

std::string requestPiece(size_t piece) {
  static const std::array<std::string, PieceCount> Pieces = {
      R"({"amount": 1})", R"({ "amount":1 })",  R"({"amount": 2})", "", R"({"amount":)", " 1}",
      "no JSON",          std::string(600, 'x')};
  return Pieces.at(piece);
}

}  // namespace idempotency::fuzz
