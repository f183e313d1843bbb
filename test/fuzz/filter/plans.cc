#include "test/fuzz/filter/plans.h"

#include <array>
#include <fmt/format.h>

namespace idempotency::fuzz {
namespace {

constexpr std::array Routes = {
    RoutePlan{.name = "default"},
    RoutePlan{.name = "wait", .fields = R"(, "in_flight": {"action": "WAIT", "wait": "0.4s"})"},
    RoutePlan{.name = "retry", .fields = R"(, "on_lease_expired": "RETRY")", .retries_lease = true},
    RoutePlan{
        .name = "fail-open", .fields = R"(, "on_store_failure": "FAIL_OPEN")", .fails_open = true},
    RoutePlan{.name = "accepted", .fields = R"(, "in_flight": {"action": "ACCEPTED"})"},
    RoutePlan{.name = "small", .max_request = 16, .max_response = 8},
    RoutePlan{
        .name = "none", .fields = R"(, "fingerprint": {"mode": "NONE"})", .any_request = true},
    RoutePlan{.name = "odd",
              .fields = R"(, "enforcement": "OPTIONAL", "flavor": "STRIPE",
                           "store_response": false, "on_expired": "GONE")",
              .optional = true,
              .secret = true,
              .gone = true},
    RoutePlan{.name = "wait-and-retry",
              .fields = R"(, "in_flight": {"action": "WAIT", "wait": "3s"},
                           "on_lease_expired": "RETRY", "on_store_failure": "FAIL_OPEN")",
              .retries_lease = true,
              .fails_open = true},
    RoutePlan{.name = "off", .off = true},
};

constexpr std::array Configs = {
    ConfigPlan{.name = "cache", .fields = R"(, "maintenance": {"enabled": false})"},
    ConfigPlan{.name = "maintains",
               .fields = R"(, "replay_cache": {"max_bytes": 0},
                            "maintenance": {"sweep_interval": "1s", "reap_interval": "10s"})",
               .maintains = true},
    ConfigPlan{.name = "limits",
               .fields = R"(, "maintenance": {"enabled": false},
                            "limits": {"in_flight": 2, "tenant_key_rate": 2,
                                       "tenant_live_keys": 2})",
               .most_in_flight = 2},
};

}  // namespace

std::span<const RoutePlan> routePlans() {
  return Routes;
}

std::string routeJson(const RoutePlan& plan) {
  const char* const required = plan.optional ? "" : R"(, "enforcement": "REQUIRED")";
  return fmt::format(R"({{"policy": {{"operation": "{}", "lease": "{}s", "ttl": "{}s",
                     "completion_timeout": "0.{}s", "max_request_bytes": {},
                     "max_response_bytes": {}{}{}}}}})",
                     Operation, Lease.count() / 1000, Life.count() / 1000,
                     CompletionTimeout.count(), plan.max_request, plan.max_response, required,
                     plan.fields);
}

std::span<const ConfigPlan> configPlans() {
  return Configs;
}

std::string configJson(const ConfigPlan& plan) {
  return fmt::format(R"({{"store": {{"sqlite": {{"path": "/never/{}.db", "timeout": "0.2s"}}}},
                     "tenant": {{"sources": [{{"header": "x-tenant"}}]}}{}}})",
                     plan.name, plan.fields);
}

}  // namespace idempotency::fuzz
