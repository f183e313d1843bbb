#include "source/protocol/config.h"

#include <fmt/format.h>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace idempotency {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using namespace std::chrono_literals;

constexpr std::string_view Store = R"("store": {"sqlite": {"path": "/var/lib/i.db"}})";
constexpr std::string_view Tenant = R"("tenant": {"sources": [{"fixed": ""}]})";

// A filter config that is good but for what `fields` adds.
std::string filterJson(std::string_view fields) {
  return fmt::format("{{{}, {}{}{}}}", Store, Tenant, fields.empty() ? "" : ", ", fields);
}

std::string routeJson(std::string_view policy) {
  return fmt::format(R"({{"policy": {}}})", policy);
}

std::string messageOf(const absl::Status& status) {
  return std::string(status.message());
}

FilterConfig mustLoadFilter(std::string_view json) {
  auto config = loadFilterConfig(json);
  EXPECT_TRUE(config.ok()) << json << "\n" << config.status();
  return config.ok() ? *config : FilterConfig{};
}

RouteConfig mustLoadRoute(std::string_view policy) {
  auto config = loadRouteConfig(routeJson(policy));
  EXPECT_TRUE(config.ok()) << policy << "\n" << config.status();
  return config.ok() ? *config : RouteConfig{};
}

// The policy of a route with this config under a filter that says nothing.
Policy mustResolve(std::string_view route_policy) {
  const FilterConfig filter = mustLoadFilter(filterJson(""));
  const RouteConfig route = mustLoadRoute(route_policy);
  auto policy = resolvePolicy(filter, &route);
  EXPECT_TRUE(policy.ok()) << policy.status();
  return policy.ok() ? *policy : Policy{};
}

// --- Defaults and fall-back
// -------------------------------------------------------------------------------

TEST(ConfigTest, SilentConfigGivesTheDocumentedDefaults) {
  const Policy policy = mustResolve("{}");
  EXPECT_EQ(policy.enforcement, Enforcement::Off);
  EXPECT_THAT(policy.methods, ElementsAre("PATCH", "POST"));
  EXPECT_EQ(policy.key.syntax, KeySyntax::Strict);
  EXPECT_EQ(policy.key.min_length, 16u);
  EXPECT_EQ(policy.key.max_length, 255u);
  EXPECT_FALSE(policy.key.uuid_only);
  EXPECT_EQ(policy.scope, Scope::TenantAndOperation);
  EXPECT_EQ(policy.operation, "");
  EXPECT_EQ(policy.fingerprint.mode, FingerprintMode::Canonical);
  EXPECT_FALSE(policy.fingerprint.principal);
  EXPECT_EQ(policy.principal, std::nullopt);
  EXPECT_EQ(policy.flavor, Flavor::Ietf);
  EXPECT_EQ(policy.mismatch_status, 422);
  EXPECT_EQ(policy.in_flight, (InFlightRules{InFlightAction::Reject, 0ms, 1s}));
  EXPECT_EQ(policy.on_store_failure, StoreFailure::FailClosed);
  EXPECT_EQ(policy.ttl, 24h);
  EXPECT_EQ(policy.lease, 30s);
  EXPECT_EQ(policy.on_lease_expired, LeaseExpired::Unknown);
  EXPECT_EQ(policy.on_expired, ExpiredKey::Run);
  for (int status = 100; status <= 599; ++status) {
    EXPECT_EQ(policy.retryable_statuses.contains(status),
              status == 408 || status == 425 || status == 429 || status >= 500)
        << status;
    EXPECT_EQ(policy.released_statuses.contains(status),
              status == 401 || status == 403 || status == 407)
        << status;
  }
  EXPECT_EQ(policy.max_request_bytes, 1048576u);
  EXPECT_EQ(policy.max_response_bytes, 1048576u);
  EXPECT_TRUE(policy.store_response);
  EXPECT_THAT(policy.unstored_headers, IsEmpty());
  EXPECT_EQ(policy.completion_timeout, 5s);
  EXPECT_EQ(policy.docs_url, "");
  EXPECT_EQ(policy.detached, std::nullopt);
  EXPECT_EQ(policy.max_request_age, std::nullopt);
}

TEST(ConfigTest, SilentFilterConfigGivesTheDocumentedDefaults) {
  const FilterConfig config = mustLoadFilter(filterJson(""));
  EXPECT_EQ(config.store, StoreSettings(SqliteSettings{"/var/lib/i.db", 1s}));
  EXPECT_THAT(config.tenant_sources, ElementsAre(NameSource(FixedSource{""})));
  EXPECT_EQ(config.replay_cache, (ReplayCacheSettings{16777216, 60s}));
  EXPECT_EQ(config.limits, (LimitSettings{10000, 67108864, std::nullopt, std::nullopt}));
  EXPECT_EQ(config.maintenance, (MaintenanceSettings{true, 60s, 60s, false}));
  EXPECT_EQ(config.encryption, std::nullopt);
  EXPECT_EQ(config.reconcile, std::nullopt);
}

TEST(ConfigTest, RouteBeatsFilterBeatsDefault) {
  const FilterConfig filter = mustLoadFilter(
      filterJson(R"("policy": {"enforcement": "OPTIONAL", "ttl": "100s", "lease": "10s",
                               "retryable_statuses": ["5xx"], "unstored_headers": ["x-a"]})"));
  const RouteConfig route = mustLoadRoute(
      R"({"enforcement": "REQUIRED", "ttl": "200s", "retryable_statuses": [],
          "unstored_headers": []})");
  const auto own = resolvePolicy(filter, &route);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->enforcement, Enforcement::Required);
  EXPECT_EQ(own->ttl, 200s);
  EXPECT_EQ(own->lease, 10s);
  EXPECT_TRUE(own->retryable_statuses.empty());
  EXPECT_THAT(own->unstored_headers, IsEmpty());
  EXPECT_EQ(own->completion_timeout, 5s);

  const auto none = resolvePolicy(filter, nullptr);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->enforcement, Enforcement::Optional);
  EXPECT_EQ(none->ttl, 100s);
  EXPECT_TRUE(none->retryable_statuses.contains(500));
  EXPECT_FALSE(none->retryable_statuses.contains(429));
  EXPECT_THAT(none->unstored_headers, ElementsAre("x-a"));
}

TEST(ConfigTest, EveryFieldFallsBackToTheFilter) {
  const std::string_view all = R"({
    "enforcement": "OPTIONAL", "methods": ["PUT"], "key_syntax": "RAW", "min_key_length": 20,
    "max_key_length": 100, "uuid_only": true, "scope": "TENANT", "operation": "op",
    "fingerprint": {"mode": "RAW", "headers": ["x-b"], "principal": {"header": "x-user"}},
    "flavor": "STRIPE", "mismatch_status": 409,
    "in_flight": {"action": "WAIT", "wait": "2s", "retry_after": "3s"},
    "on_store_failure": "FAIL_OPEN", "ttl": "100s", "lease": "10s", "on_lease_expired": "RETRY",
    "on_expired": "GONE", "retryable_statuses": [500], "released_statuses": [404],
    "max_request_bytes": 10, "max_response_bytes": 20, "store_response": false,
    "unstored_headers": ["x-a"], "completion_timeout": "1s", "docs_url": "https://d.example/x",
    "detached": {"cluster": "c", "timeout": "9s"},
    "max_request_age": {"header": "x-time", "limit": "60s"}})";
  const FilterConfig filter = mustLoadFilter(filterJson(fmt::format(R"("policy": {})", all)));
  const RouteConfig route = mustLoadRoute("{}");
  const auto policy = resolvePolicy(filter, &route);
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ(policy->enforcement, Enforcement::Optional);
  EXPECT_THAT(policy->methods, ElementsAre("PUT"));
  EXPECT_EQ(policy->key.syntax, KeySyntax::Raw);
  EXPECT_EQ(policy->key.min_length, 20u);
  EXPECT_EQ(policy->key.max_length, 100u);
  EXPECT_TRUE(policy->key.uuid_only);
  EXPECT_EQ(policy->scope, Scope::Tenant);
  EXPECT_EQ(policy->operation, "op");
  EXPECT_EQ(policy->fingerprint.mode, FingerprintMode::Raw);
  EXPECT_THAT(policy->fingerprint.headers, ElementsAre("x-b"));
  EXPECT_TRUE(policy->fingerprint.principal);
  EXPECT_EQ(policy->principal, NameSource(HeaderSource{"x-user"}));
  EXPECT_EQ(policy->flavor, Flavor::Stripe);
  EXPECT_EQ(policy->mismatch_status, 409);
  EXPECT_EQ(policy->in_flight, (InFlightRules{InFlightAction::Wait, 2s, 3s}));
  EXPECT_EQ(policy->on_store_failure, StoreFailure::FailOpen);
  EXPECT_EQ(policy->ttl, 100s);
  EXPECT_EQ(policy->lease, 10s);
  EXPECT_EQ(policy->on_lease_expired, LeaseExpired::Retry);
  EXPECT_EQ(policy->on_expired, ExpiredKey::Gone);
  EXPECT_TRUE(policy->retryable_statuses.contains(500));
  EXPECT_FALSE(policy->retryable_statuses.contains(501));
  EXPECT_TRUE(policy->released_statuses.contains(404));
  EXPECT_FALSE(policy->released_statuses.contains(401));
  EXPECT_EQ(policy->max_request_bytes, 10u);
  EXPECT_EQ(policy->max_response_bytes, 20u);
  EXPECT_FALSE(policy->store_response);
  EXPECT_THAT(policy->unstored_headers, ElementsAre("x-a"));
  EXPECT_EQ(policy->completion_timeout, 1s);
  EXPECT_EQ(policy->docs_url, "https://d.example/x");
  EXPECT_EQ(policy->detached, (DetachedRules{"c", 9s}));
  EXPECT_EQ(policy->max_request_age, (RequestAgeRules{"x-time", 60s}));

  // … and the route's own values win, for the same fields.
  const RouteConfig other = mustLoadRoute(R"({
    "enforcement": "REQUIRED", "methods": ["DELETE"], "key_syntax": "EITHER", "min_key_length": 1,
    "max_key_length": 40, "uuid_only": false, "scope": "TENANT_AND_OPERATION", "operation": "p",
    "fingerprint": {"mode": "NONE"}, "flavor": "IETF", "mismatch_status": 400,
    "in_flight": {"action": "ACCEPTED"}, "on_store_failure": "FAIL_CLOSED", "ttl": "50s",
    "lease": "20s", "on_lease_expired": "UNKNOWN", "on_expired": "RUN",
    "retryable_statuses": ["4xx"], "released_statuses": [], "max_request_bytes": 0,
    "max_response_bytes": 0, "store_response": true, "unstored_headers": ["X-C", "x-b"],
    "completion_timeout": "2s", "docs_url": "http://e.example", "detached": {"cluster": "e"},
    "max_request_age": {"header": "X-Sent", "limit": "30s"}})");
  const auto own = resolvePolicy(filter, &other);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->enforcement, Enforcement::Required);
  EXPECT_THAT(own->methods, ElementsAre("DELETE"));
  EXPECT_EQ(own->key.syntax, KeySyntax::Either);
  EXPECT_EQ(own->key.min_length, 1u);
  EXPECT_EQ(own->key.max_length, 40u);
  EXPECT_FALSE(own->key.uuid_only);
  EXPECT_EQ(own->scope, Scope::TenantAndOperation);
  EXPECT_EQ(own->operation, "p");
  EXPECT_EQ(own->fingerprint.mode, FingerprintMode::None);
  EXPECT_THAT(own->fingerprint.headers, IsEmpty());
  EXPECT_FALSE(own->fingerprint.principal);
  EXPECT_EQ(own->principal, std::nullopt);
  EXPECT_EQ(own->flavor, Flavor::Ietf);
  EXPECT_EQ(own->mismatch_status, 400);
  EXPECT_EQ(own->in_flight, (InFlightRules{InFlightAction::Accepted, 0ms, 1s}));
  EXPECT_EQ(own->on_store_failure, StoreFailure::FailClosed);
  EXPECT_EQ(own->ttl, 50s);
  EXPECT_EQ(own->lease, 20s);
  EXPECT_EQ(own->on_lease_expired, LeaseExpired::Unknown);
  EXPECT_EQ(own->on_expired, ExpiredKey::Run);
  EXPECT_TRUE(own->retryable_statuses.contains(404));
  EXPECT_TRUE(own->released_statuses.empty());
  EXPECT_EQ(own->max_request_bytes, 0u);
  EXPECT_EQ(own->max_response_bytes, 0u);
  EXPECT_TRUE(own->store_response);
  EXPECT_THAT(own->unstored_headers, ElementsAre("x-b", "x-c"));
  EXPECT_EQ(own->completion_timeout, 2s);
  EXPECT_EQ(own->docs_url, "http://e.example");
  EXPECT_EQ(own->detached, (DetachedRules{"e", 60s}));
  EXPECT_EQ(own->max_request_age, (RequestAgeRules{"x-sent", 30s}));
}

TEST(ConfigTest, MismatchStatusFollowsTheFlavorThatWins) {
  const FilterConfig filter = mustLoadFilter(filterJson(R"("policy": {"flavor": "STRIPE"})"));
  EXPECT_EQ(resolvePolicy(filter, nullptr)->mismatch_status, 400);
  const RouteConfig route = mustLoadRoute(R"({"flavor": "IETF"})");
  EXPECT_EQ(resolvePolicy(filter, &route)->mismatch_status, 422);
}

TEST(ConfigTest, CoversOnlyConfiguredMethodsOfRoutesThatEnforce) {
  const Policy on = mustResolve(R"({"enforcement": "OPTIONAL", "methods": ["POST", "DELETE"]})");
  EXPECT_TRUE(on.covers("POST"));
  EXPECT_TRUE(on.covers("DELETE"));
  EXPECT_FALSE(on.covers("PATCH"));
  EXPECT_FALSE(on.covers("post"));
  EXPECT_FALSE(on.covers(""));
  EXPECT_FALSE(mustResolve("{}").covers("POST"));
}

// --- What Envoy's JSON may look like
// ----------------------------------------------------------------------

TEST(ConfigTest, NumbersMayComeAsDoublesAndNamesInCamelCase) {
  const Policy policy = mustResolve(
      R"({"minKeyLength": 3.0, "max_key_length": 1e2, "maxRequestBytes": "77", "keySyntax": "RAW",
          "maxResponseBytes": 1048576.0, "retryableStatuses": [503.0, "4xx"],
          "releasedStatuses": [], "inFlight": {"retryAfter": "2s"}})");
  EXPECT_EQ(policy.key.min_length, 3u);
  EXPECT_EQ(policy.key.max_length, 100u);
  EXPECT_EQ(policy.key.syntax, KeySyntax::Raw);
  EXPECT_EQ(policy.max_request_bytes, 77u);
  EXPECT_EQ(policy.max_response_bytes, 1048576u);
  EXPECT_TRUE(policy.retryable_statuses.contains(503));
  EXPECT_FALSE(policy.retryable_statuses.contains(502));
  EXPECT_TRUE(policy.retryable_statuses.contains(499));
  EXPECT_EQ(policy.in_flight.retry_after, 2s);
}

TEST(ConfigTest, FullFilterConfigLoads) {
  const FilterConfig config = mustLoadFilter(R"({
    "reconcile": {"cluster": "c", "path": "/outcome", "authority": "a", "timeout": "2s",
                  "first_delay": "5s", "max_delay": "50s", "max_attempts": 3},
    "encryption": {"keys": [{"id": "k.2", "file": "/run/k2"}, {"id": "k-1", "file": "/run/k1"}]},
    "maintenance": {"enabled": false, "sweep_interval": "30s", "reap_interval": "90s",
                    "soft_expire": true},
    "limits": {"in_flight": 5, "queue_bytes": 1048576, "tenant_key_rate": 7,
               "tenant_live_keys": 8},
    "replay_cache": {"max_bytes": 0, "max_age": "1.5s"},
    "tenant": {"sources": [{"header": "X-Tenant-Id"},
                           {"metadata": {"namespace": "my.auth", "key": "tenant"}},
                           {"peer_uri_san": {}}, {"fixed": "rest"}]},
    "store": {"postgres": {"conninfo": "host=db user=f sslmode=verify-full",
                           "password_file": "/run/secrets/pg", "connections": 8,
                           "timeout": "0.5s", "allow_asynchronous_commit": true}}})");
  EXPECT_EQ(config.store, StoreSettings(PostgresSettings{"host=db user=f sslmode=verify-full",
                                                         "/run/secrets/pg", 8, 500ms, true}));
  EXPECT_THAT(config.tenant_sources,
              ElementsAre(NameSource(HeaderSource{"x-tenant-id"}),
                          NameSource(MetadataSource{"my.auth", "tenant"}),
                          NameSource(PeerUriSanSource{}), NameSource(FixedSource{"rest"})));
  EXPECT_EQ(config.replay_cache, (ReplayCacheSettings{0, 1500ms}));
  EXPECT_EQ(config.limits, (LimitSettings{5, 1048576, 7, 8}));
  EXPECT_EQ(config.maintenance, (MaintenanceSettings{false, 30s, 90s, true}));
  EXPECT_EQ(config.encryption, (EncryptionSettings{{{"k.2", "/run/k2"}, {"k-1", "/run/k1"}}}));
  EXPECT_EQ(config.reconcile, (ReconcileSettings{"c", "/outcome", "a", 2s, 5s, 50s, 3}));
}

TEST(ConfigTest, StoreSettingsCompareByValueNotByText) {
  const auto store = [](std::string_view json) {
    return mustLoadFilter(fmt::format("{{{}, {}}}", json, Tenant)).store;
  };
  EXPECT_EQ(store(R"("store": {"postgres": {"conninfo": "host=a", "timeout": "1s"}})"),
            store(R"("store": {"postgres": {"timeout": "1.000s", "conninfo": "host=a",
                                            "connections": 4.0}})"));
  EXPECT_NE(store(R"("store": {"postgres": {"conninfo": "host=a"}})"),
            store(R"("store": {"postgres": {"conninfo": "host=b"}})"));
  EXPECT_NE(store(R"("store": {"sqlite": {"path": "/a"}})"),
            store(R"("store": {"sqlite": {"path": "/b"}})"));
}

// --- Values that a policy accepts
// -------------------------------------------------------------------------

class GoodPolicyTest : public testing::TestWithParam<const char*> {};

TEST_P(GoodPolicyTest, IsAcceptedOnBothLevels) {
  const auto route = loadRouteConfig(routeJson(GetParam()));
  EXPECT_TRUE(route.ok()) << route.status();
  const auto filter = loadFilterConfig(filterJson(fmt::format(R"("policy": {})", GetParam())));
  EXPECT_TRUE(filter.ok()) << filter.status();
}

INSTANTIATE_TEST_SUITE_P(
    Edges, GoodPolicyTest,
    testing::Values(
        R"({})", R"({"enforcement": "OFF"})", R"({"methods": ["GET", "HEAD", "X-CUSTOM"]})",
        R"({"min_key_length": 1})", R"({"min_key_length": 255})", R"({"max_key_length": 16})",
        R"({"min_key_length": 1, "max_key_length": 1})",
        R"({"uuid_only": true, "min_key_length": 36, "max_key_length": 36})",
        R"({"operation": "a b/c"})", R"({"fingerprint": {}})",
        R"({"fingerprint": {"mode": "SELECTED", "pointers": ["", "/a/0/b~1c"]}})",
        R"({"fingerprint": {"mode": "CANONICAL", "exclude_pointers": ["/ts"]}})",
        R"({"fingerprint": {"mode": "RAW", "headers": ["X-A", "x-b"]}})",
        R"({"fingerprint": {"mode": "NONE"}})",
        R"({"fingerprint": {"principal": {"metadata": {"namespace": "n", "key": "k"}}}})",
        R"({"mismatch_status": 400})", R"({"mismatch_status": 409})", R"({"mismatch_status": 422})",
        R"({"in_flight": {}})", R"({"in_flight": {"action": "WAIT", "wait": "0.001s"}})",
        R"({"in_flight": {"action": "WAIT", "wait": "60s"}})",
        R"({"in_flight": {"retry_after": "3600s"}})", R"({"ttl": "2592000s"})",
        R"({"ttl": "1s", "lease": "1s", "completion_timeout": "1s"})", R"({"lease": "3600s"})",
        R"({"completion_timeout": "0.01s"})", R"({"completion_timeout": "30s"})",
        R"({"retryable_statuses": []})", R"({"retryable_statuses": [100, 599]})",
        R"({"retryable_statuses": ["1xx", "2xx", "3xx", "5xx"]})", R"({"released_statuses": []})",
        R"({"retryable_statuses": ["4xx"], "released_statuses": []})",
        R"({"max_request_bytes": 0})", R"({"max_request_bytes": 67108864})",
        R"({"max_response_bytes": 0})", R"({"max_response_bytes": 67108864})",
        R"({"unstored_headers": []})", R"({"unstored_headers": ["Location", "x_y.z"]})",
        R"({"docs_url": "https://developer.example.com/idempotency?lang=en"})",
        R"({"detached": {"cluster": "c", "timeout": "0.001s"}})",
        R"({"max_request_age": {"header": "date", "limit": "1s"}})"));

// --- Values that a policy refuses
// -------------------------------------------------------------------------

struct BadCase {
  const char* policy;
  const char* message;  // All of it: the field's path, what was given, what is allowed.
};

std::ostream& operator<<(std::ostream& out, const BadCase& test) {
  return out << test.policy;
}

class BadPolicyTest : public testing::TestWithParam<BadCase> {};

TEST_P(BadPolicyTest, IsRefusedOnBothLevelsByTheSameWords) {
  const auto route = loadRouteConfig(routeJson(GetParam().policy));
  ASSERT_FALSE(route.ok()) << GetParam().policy;
  EXPECT_EQ(messageOf(route.status()), GetParam().message);
  EXPECT_EQ(route.status().code(), absl::StatusCode::kInvalidArgument);
  const auto filter =
      loadFilterConfig(filterJson(fmt::format(R"("policy": {})", GetParam().policy)));
  ASSERT_FALSE(filter.ok()) << GetParam().policy;
  EXPECT_EQ(messageOf(filter.status()), GetParam().message);
}

#define DURATION_WORDS "a duration in seconds such as \"30s\" or \"0.25s\""
#define STATUS_WORDS "a status from 100 to 599, or a class such as \"5xx\""
#define URL_WORDS "an absolute http or https URL without a fragment, up to 2048 bytes"
#define NAME_WORDS "a header name: letters, digits and - _ . alike"

INSTANTIATE_TEST_SUITE_P(
    Fields, BadPolicyTest,
    testing::Values(
        BadCase{R"({"enforcement": "ALWAYS"})",
                R"(policy.enforcement: "ALWAYS"; allowed: OFF, OPTIONAL, REQUIRED)"},
        BadCase{R"({"enforcement": "off"})",
                R"(policy.enforcement: "off"; allowed: OFF, OPTIONAL, REQUIRED)"},
        BadCase{R"({"enforcement": 1})", "policy.enforcement: 1; allowed: OFF, OPTIONAL, REQUIRED"},
        BadCase{R"({"enforcement": true})",
                "policy.enforcement: true; allowed: OFF, OPTIONAL, REQUIRED"},
        BadCase{
            R"({"enforcement": false})",
            R"(policy.enforcement: false; allowed: OFF, OPTIONAL, REQUIRED (in YAML write "OFF" with quotes))"},
        BadCase{R"({"enforcement": null})",
                "policy.enforcement: null; allowed: a value, or leave the field out"},
        BadCase{R"({"enforcement": "OFF", "enforcement": "OFF"})",
                "policy.enforcement: given twice; allowed: once"},
        BadCase{R"({"min_key_length": 20, "minKeyLength": 20})",
                "policy.min_key_length: given twice; allowed: once"},

        BadCase{R"({"methods": "POST"})", "policy.methods: a string; allowed: a list"},
        BadCase{
            R"({"methods": []})",
            "policy.methods: an empty list; allowed: at least one entry, or leave the field out"},
        BadCase{R"({"methods": [1]})", "policy.methods[0]: 1; allowed: a string"},
        BadCase{R"({"methods": ["POST", "post"]})",
                "policy.methods[1]: \"post\"; allowed: a method in upper case, such as POST"},
        BadCase{R"({"methods": [""]})",
                "policy.methods[0]: \"\"; allowed: a method in upper case, such as POST"},
        BadCase{R"({"methods": ["PO ST"]})",
                "policy.methods[0]: \"PO ST\"; allowed: a method in upper case, such as POST"},
        BadCase{R"({"methods": ["CONNECT"]})",
                "policy.methods[0]: \"CONNECT\"; allowed: a method that can be retried with a key"},
        BadCase{R"({"methods": ["OPTIONS"]})",
                "policy.methods[0]: \"OPTIONS\"; allowed: a method that can be retried with a key"},
        BadCase{R"({"methods": ["POST", "POST"]})",
                "policy.methods[1]: \"POST\"; allowed: each method once"},
        BadCase{
            R"({"methods": ["A","B","C","D","E","F","G","H","I","J","K","L","M","N","O","P","Q"]})",
            "policy.methods (entries): 17; allowed: 1 to 16"},

        BadCase{R"({"key_syntax": "LOOSE"})",
                "policy.key_syntax: \"LOOSE\"; allowed: STRICT, RAW, EITHER"},
        BadCase{R"({"min_key_length": 0})", "policy.min_key_length: 0; allowed: 1 to 255"},
        BadCase{R"({"min_key_length": 256})", "policy.min_key_length: 256; allowed: 1 to 255"},
        BadCase{R"({"min_key_length": -1})",
                "policy.min_key_length: -1; allowed: a whole number, 0 to 4294967295"},
        BadCase{R"({"min_key_length": 3.5})",
                "policy.min_key_length: 3.5; allowed: a whole number, 0 to 4294967295"},
        BadCase{R"({"min_key_length": "20"})",
                "policy.min_key_length: \"20\"; allowed: a whole number, 0 to 4294967295"},
        BadCase{R"({"min_key_length": 4294967296})",
                "policy.min_key_length: 4294967296; allowed: a whole number, 0 to 4294967295"},
        BadCase{R"({"min_key_length": 100, "max_key_length": 99})",
                "policy.min_key_length: 100; allowed: up to policy.max_key_length, which is 99"},
        BadCase{R"({"max_key_length": 0})", "policy.max_key_length: 0; allowed: 1 to 255"},
        BadCase{R"({"max_key_length": 256})", "policy.max_key_length: 256; allowed: 1 to 255"},
        BadCase{R"({"max_key_length": 15})",
                "policy.min_key_length: 16; allowed: up to policy.max_key_length, which is 15"},
        BadCase{R"({"uuid_only": "true"})", "policy.uuid_only: \"true\"; allowed: true or false"},
        BadCase{R"({"uuid_only": 1})", "policy.uuid_only: 1; allowed: true or false"},
        BadCase{R"({"uuid_only": true, "max_key_length": 35})",
                "policy.uuid_only: true with key lengths 16 to 35; allowed: only where keys of 36 "
                "characters are allowed"},
        BadCase{R"({"uuid_only": true, "min_key_length": 37})",
                "policy.uuid_only: true with key lengths 37 to 255; allowed: only where keys of 36 "
                "characters are allowed"},

        BadCase{R"({"scope": "GLOBAL"})",
                "policy.scope: \"GLOBAL\"; allowed: TENANT_AND_OPERATION, TENANT"},
        BadCase{R"({"operation": ""})",
                "policy.operation: empty; allowed: 1 to 255 bytes of printable ASCII"},
        BadCase{R"({"operation": "a\nb"})",
                "policy.operation: \"a\\x0ab\"; allowed: 1 to 255 bytes of printable ASCII"},
        BadCase{R"({"operation": 5})", "policy.operation: 5; allowed: a string"},

        BadCase{R"({"flavor": "ietf"})", "policy.flavor: \"ietf\"; allowed: IETF, STRIPE"},
        BadCase{R"({"mismatch_status": 404})",
                "policy.mismatch_status: 404; allowed: 400, 409 or 422"},
        BadCase{R"({"mismatch_status": 0})", "policy.mismatch_status: 0; allowed: 400, 409 or 422"},
        BadCase{R"({"on_store_failure": "OPEN"})",
                "policy.on_store_failure: \"OPEN\"; allowed: FAIL_CLOSED, FAIL_OPEN"},
        BadCase{R"({"on_lease_expired": "RUN"})",
                "policy.on_lease_expired: \"RUN\"; allowed: UNKNOWN, RETRY"},
        BadCase{R"({"on_expired": "410"})", "policy.on_expired: \"410\"; allowed: RUN, GONE"},

        BadCase{R"({"ttl": 86400})", "policy.ttl: 86400; allowed: " DURATION_WORDS},
        BadCase{R"({"ttl": "1d"})", "policy.ttl: \"1d\"; allowed: " DURATION_WORDS},
        BadCase{R"({"ttl": ""})", "policy.ttl: \"\"; allowed: " DURATION_WORDS},
        BadCase{R"({"ttl": {"seconds": 1}})", "policy.ttl: an object; allowed: " DURATION_WORDS},
        BadCase{R"({"ttl": "0s"})", "policy.ttl: 0s; allowed: 1s to 2592000s"},
        BadCase{R"({"ttl": "-1s"})", "policy.ttl: -1s; allowed: 1s to 2592000s"},
        BadCase{R"({"ttl": "0.999s"})", "policy.ttl: 0.999s; allowed: 1s to 2592000s"},
        BadCase{R"({"ttl": "2592000.001s"})", "policy.ttl: 2592000.001s; allowed: 1s to 2592000s"},
        BadCase{R"({"ttl": "60.0001s"})",
                "policy.ttl: a fraction of a millisecond; allowed: whole milliseconds"},
        BadCase{R"({"ttl": "29s"})",
                "policy.ttl: 29s; allowed: at least policy.lease, which is 30s"},
        BadCase{R"({"lease": "0s"})", "policy.lease: 0s; allowed: 1s to 3600s"},
        BadCase{R"({"lease": "3601s"})", "policy.lease: 3601s; allowed: 1s to 3600s"},
        BadCase{R"({"lease": "2s", "completion_timeout": "2.001s"})",
                "policy.completion_timeout: 2.001s; allowed: up to policy.lease, which is 2s"},
        BadCase{R"({"lease": "4s"})",
                "policy.completion_timeout: 5s; allowed: up to policy.lease, which is 4s"},
        BadCase{R"({"completion_timeout": "0s"})",
                "policy.completion_timeout: 0s; allowed: 0.01s to 60s"},
        BadCase{R"({"completion_timeout": "61s"})",
                "policy.completion_timeout: 61s; allowed: 0.01s to 60s"},

        BadCase{R"({"retryable_statuses": "5xx"})",
                "policy.retryable_statuses: a string; allowed: a list"},
        BadCase{R"({"retryable_statuses": ["6xx"]})",
                "policy.retryable_statuses[0]: \"6xx\"; allowed: " STATUS_WORDS},
        BadCase{R"({"retryable_statuses": ["0xx"]})",
                "policy.retryable_statuses[0]: \"0xx\"; allowed: " STATUS_WORDS},
        BadCase{R"({"retryable_statuses": ["5XX"]})",
                "policy.retryable_statuses[0]: \"5XX\"; allowed: " STATUS_WORDS},
        BadCase{R"({"retryable_statuses": ["503"]})",
                "policy.retryable_statuses[0]: \"503\"; allowed: " STATUS_WORDS},
        BadCase{R"({"retryable_statuses": [99]})",
                "policy.retryable_statuses[0]: 99; allowed: " STATUS_WORDS},
        BadCase{R"({"retryable_statuses": [600]})",
                "policy.retryable_statuses[0]: 600; allowed: " STATUS_WORDS},
        BadCase{R"({"retryable_statuses": [500.5]})",
                "policy.retryable_statuses[0]: 500.5; allowed: " STATUS_WORDS},
        BadCase{R"({"retryable_statuses": [true]})",
                "policy.retryable_statuses[0]: true; allowed: a string or a number"},
        BadCase{R"({"retryable_statuses": [[500]]})",
                "policy.retryable_statuses[0]: a list; allowed: a string or a number"},
        BadCase{R"({"retryable_statuses": [500, 500]})",
                "policy.retryable_statuses[1]: 500; allowed: each status once"},
        BadCase{R"({"retryable_statuses": ["5xx", 503]})",
                "policy.retryable_statuses[1]: 503; allowed: each status once"},
        BadCase{R"({"retryable_statuses": [503, "5xx"]})",
                "policy.retryable_statuses[1]: \"5xx\"; allowed: each status once"},
        BadCase{R"({"released_statuses": ["x"]})",
                "policy.released_statuses[0]: \"x\"; allowed: " STATUS_WORDS},
        BadCase{
            R"({"released_statuses": [429]})",
            "policy.released_statuses: 429, which is in policy.retryable_statuses too; allowed: "
            "statuses that are not in policy.retryable_statuses"},
        BadCase{
            R"({"retryable_statuses": ["4xx"]})",
            "policy.released_statuses: 401, which is in policy.retryable_statuses too; allowed: "
            "statuses that are not in policy.retryable_statuses"},

        BadCase{R"({"max_request_bytes": 67108865})",
                "policy.max_request_bytes: 67108865; allowed: 0 to 67108864"},
        BadCase{R"({"max_request_bytes": "1MiB"})",
                "policy.max_request_bytes: \"1MiB\"; allowed: a whole number, 0 or more"},
        BadCase{R"({"max_request_bytes": -1})",
                "policy.max_request_bytes: -1; allowed: a whole number, 0 or more"},
        BadCase{R"({"max_request_bytes": 1e30})",
                "policy.max_request_bytes: 1e+30; allowed: a whole number, 0 or more"},
        BadCase{R"({"max_response_bytes": 67108865})",
                "policy.max_response_bytes: 67108865; allowed: 0 to 67108864"},
        BadCase{R"({"store_response": "no"})",
                "policy.store_response: \"no\"; allowed: true or false"},

        BadCase{R"({"unstored_headers": "x"})",
                "policy.unstored_headers: a string; allowed: a list"},
        BadCase{R"({"unstored_headers": [5]})",
                "policy.unstored_headers[0]: 5; allowed: a header name"},
        BadCase{R"({"unstored_headers": [""]})",
                "policy.unstored_headers[0]: empty; allowed: a header name"},
        BadCase{R"({"unstored_headers": [":status"]})",
                "policy.unstored_headers[0]: \":status\"; allowed: a header name that is no pseudo "
                "header"},
        BadCase{R"({"unstored_headers": ["x y"]})",
                "policy.unstored_headers[0]: \"x y\"; allowed: " NAME_WORDS},
        BadCase{R"({"unstored_headers": ["Idempotent-Replayed"]})",
                "policy.unstored_headers[0]: \"Idempotent-Replayed\"; allowed: a header that the "
                "filter does not use itself"},
        BadCase{R"({"unstored_headers": ["x-a", "X-A"]})",
                "policy.unstored_headers[1]: \"X-A\"; allowed: each name once"},

        BadCase{R"({"docs_url": ""})", "policy.docs_url: \"\"; allowed: " URL_WORDS},
        BadCase{R"({"docs_url": "/docs"})", "policy.docs_url: \"/docs\"; allowed: " URL_WORDS},
        BadCase{R"({"docs_url": "ftp://a"})", "policy.docs_url: \"ftp://a\"; allowed: " URL_WORDS},
        BadCase{R"({"docs_url": "https://"})",
                "policy.docs_url: \"https://\"; allowed: " URL_WORDS},
        BadCase{R"({"docs_url": "https:///x"})",
                "policy.docs_url: \"https:///x\"; allowed: " URL_WORDS},
        BadCase{R"({"docs_url": "https://a/#b"})",
                "policy.docs_url: \"https://a/#b\"; allowed: " URL_WORDS},
        BadCase{R"({"docs_url": "https://a/>; rel=x"})",
                "policy.docs_url: \"https://a/>; rel=x\"; allowed: " URL_WORDS},
        BadCase{R"({"docs_url": "https://a/\r\nx: y"})",
                "policy.docs_url: \"https://a/\\x0d\\x0ax: y\"; allowed: " URL_WORDS}));

INSTANTIATE_TEST_SUITE_P(
    Messages, BadPolicyTest,
    testing::Values(
        BadCase{R"({"fingerprint": "RAW"})", "policy.fingerprint: a string; allowed: an object"},
        BadCase{R"({"fingerprint": {"mode": "SHA"}})",
                "policy.fingerprint.mode: \"SHA\"; allowed: CANONICAL, RAW, SELECTED, NONE"},
        BadCase{
            R"({"fingerprint": {"mode": "SELECTED"}})",
            "policy.fingerprint.pointers: missing; allowed: at least one pointer in mode SELECTED"},
        BadCase{R"({"fingerprint": {"pointers": ["/a"]}})",
                "policy.fingerprint.pointers: given without mode SELECTED; allowed: only in mode "
                "SELECTED"},
        BadCase{R"({"fingerprint": {"mode": "SELECTED", "pointers": ["a"]}})",
                "policy.fingerprint.pointers[0]: \"a\"; allowed: a JSON Pointer (RFC 6901) such as "
                "\"/amount\""},
        BadCase{R"({"fingerprint": {"mode": "SELECTED", "pointers": ["/a", "/a"]}})",
                "policy.fingerprint.pointers[1]: \"/a\"; allowed: each pointer once"},
        BadCase{
            R"({"fingerprint": {"mode": "SELECTED", "pointers": ["/a"],
                                    "exclude_pointers": ["/b"]}})",
            "policy.fingerprint.exclude_pointers: given without mode CANONICAL; allowed: only in "
            "mode CANONICAL"},
        BadCase{
            R"({"fingerprint": {"mode": "RAW", "exclude_pointers": ["/b"]}})",
            "policy.fingerprint.exclude_pointers: given without mode CANONICAL; allowed: only in "
            "mode CANONICAL"},
        BadCase{
            R"({"fingerprint": {"exclude_pointers": ["#/b"]}})",
            "policy.fingerprint.exclude_pointers[0]: \"#/b\"; allowed: a JSON Pointer (RFC 6901) "
            "such as \"/amount\""},
        BadCase{
            R"({"fingerprint": {"mode": "NONE", "headers": ["x-a"]}})",
            "policy.fingerprint.headers: given with mode NONE; allowed: only in the other modes"},
        BadCase{R"({"fingerprint": {"mode": "NONE", "principal": {"fixed": "a"}}})",
                "policy.fingerprint.principal: given with mode NONE; allowed: only in the other "
                "modes"},
        BadCase{
            R"({"fingerprint": {"headers": [":path"]}})",
            "policy.fingerprint.headers[0]: \":path\"; allowed: a header name that is no pseudo "
            "header"},
        BadCase{R"({"fingerprint": {"headers": ["Idempotency-Key"]}})",
                "policy.fingerprint.headers[0]: \"Idempotency-Key\"; allowed: a header that the "
                "filter does not use itself"},
        BadCase{R"({"fingerprint": {"headers": ["X-Request-Id"]}})",
                "policy.fingerprint.headers[0]: \"X-Request-Id\"; allowed: a header that a retry "
                "repeats"},
        BadCase{R"({"fingerprint": {"principal": {}}})",
                "policy.fingerprint.principal: empty; allowed: one of header, metadata, "
                "peer_uri_san, fixed"},
        BadCase{R"({"fingerprint": {"principal": {"metadata": {"namespace": "n"}}}})",
                "policy.fingerprint.principal.metadata.key: empty; allowed: 1 to 255 bytes of "
                "printable ASCII"},
        BadCase{R"({"fingerprint": {"principals": {}}})",
                "policy.fingerprint.principals: unknown field; allowed: mode, headers, pointers, "
                "exclude_pointers, principal"},

        BadCase{R"({"in_flight": {"action": "HOLD"}})",
                "policy.in_flight.action: \"HOLD\"; allowed: REJECT, ACCEPTED, WAIT"},
        BadCase{
            R"({"in_flight": {"action": "WAIT"}})",
            "policy.in_flight.wait: missing; allowed: 0.001s to 60s, required with action WAIT"},
        BadCase{R"({"in_flight": {"wait": "1s"}})",
                "policy.in_flight.wait: given without action WAIT; allowed: only with action WAIT"},
        BadCase{R"({"in_flight": {"action": "ACCEPTED", "wait": "1s"}})",
                "policy.in_flight.wait: given without action WAIT; allowed: only with action WAIT"},
        BadCase{R"({"in_flight": {"action": "WAIT", "wait": "0s"}})",
                "policy.in_flight.wait: 0s; allowed: 0.001s to 60s"},
        BadCase{R"({"in_flight": {"action": "WAIT", "wait": "60.001s"}})",
                "policy.in_flight.wait: 60.001s; allowed: 0.001s to 60s"},
        BadCase{R"({"in_flight": {"retry_after": "0s"}})",
                "policy.in_flight.retry_after: 0s; allowed: 1s to 3600s"},
        BadCase{R"({"in_flight": {"retry_after": "1.5s"}})",
                "policy.in_flight.retry_after: 1.5s; allowed: whole seconds"},

        BadCase{R"({"detached": {}})",
                "policy.detached.cluster: empty; allowed: 1 to 255 bytes of printable ASCII"},
        BadCase{R"({"detached": {"cluster": "c", "timeout": "0s"}})",
                "policy.detached.timeout: 0s; allowed: 0.001s to 3600s"},
        BadCase{R"({"max_request_age": {"limit": "1s"}})",
                "policy.max_request_age.header: empty; allowed: a header name"},
        BadCase{R"({"max_request_age": {"header": "date"}})",
                "policy.max_request_age.limit: missing; allowed: 1s to 2592000s"},
        BadCase{R"({"max_request_age": {"header": "date", "limit": "0.5s"}})",
                "policy.max_request_age.limit: 0.5s; allowed: 1s to 2592000s"},

        BadCase{R"("REQUIRED")", "policy: a string; allowed: an object"},
        BadCase{R"([])", "policy: a list; allowed: an object"},
        BadCase{R"(null)", "policy: null; allowed: a value, or leave the field out"},
        BadCase{
            R"({"scope": "X", "flavor": "Y"})",
            "policy.scope: \"X\"; allowed: TENANT_AND_OPERATION, TENANT | policy.flavor: \"Y\"; "
            "allowed: IETF, STRIPE"}));

TEST(ConfigTest, UnknownPolicyFieldNamesTheKnownOnes) {
  const auto route = loadRouteConfig(R"({"policy": {"tll": "1s"}})");
  ASSERT_FALSE(route.ok());
  EXPECT_THAT(messageOf(route.status()),
              testing::StartsWith("policy.tll: unknown field; allowed: enforcement, methods, "));
  EXPECT_THAT(messageOf(route.status()), HasSubstr(", ttl, "));
}

// --- The rest of a filter's config
// ------------------------------------------------------------------------

struct BadFilterCase {
  const char* json;
  const char* message;
};

std::ostream& operator<<(std::ostream& out, const BadFilterCase& test) {
  return out << test.json;
}

class BadFilterTest : public testing::TestWithParam<BadFilterCase> {};

TEST_P(BadFilterTest, IsRefused) {
  const auto filter = loadFilterConfig(GetParam().json);
  ASSERT_FALSE(filter.ok()) << GetParam().json;
  EXPECT_EQ(messageOf(filter.status()), GetParam().message);
}

#define STORE R"("store": {"sqlite": {"path": "/d"}})"
#define TENANT R"("tenant": {"sources": [{"fixed": ""}]})"
#define POSTGRES(fields) "{" TENANT R"(, "store": {"postgres": {)" fields "}}}"
#define WITH(fields) "{" STORE ", " TENANT ", " fields "}"
#define SOURCES(list) "{" STORE R"(, "tenant": {"sources": )" list "}}"
#define STORE_MISSING "store: missing; allowed: { postgres: … } or { sqlite: … }"
#define SOURCES_MISSING                                                                      \
  "tenant.sources: missing; allowed: 1 to 8 sources; [ { fixed: \"\" } ] for an API with a " \
  "single tenant"

INSTANTIATE_TEST_SUITE_P(
    Json, BadFilterTest,
    testing::Values(
        BadFilterCase{"", STORE_MISSING " | " SOURCES_MISSING},
        BadFilterCase{"{}", STORE_MISSING " | " SOURCES_MISSING},
        BadFilterCase{"{" TENANT "}", STORE_MISSING},
        BadFilterCase{"{" TENANT R"(, "store": {}})", STORE_MISSING},
        BadFilterCase{"{" STORE "}", SOURCES_MISSING},
        BadFilterCase{"{" STORE R"(, "tenant": {}})", SOURCES_MISSING},
        BadFilterCase{"[]", "config: a list; allowed: a JSON object"},
        BadFilterCase{"7", "config: a number; allowed: a JSON object"},
        BadFilterCase{WITH(R"("polcy": {})"),
                      "polcy: unknown field; allowed: store, tenant, policy, replay_cache, limits, "
                      "maintenance, encryption, reconcile"},
        BadFilterCase{WITH(R"("a b\n": {})"),
                      "\"a b\\x0a\": unknown field; allowed: store, tenant, policy, replay_cache, "
                      "limits, maintenance, encryption, reconcile"}));

INSTANTIATE_TEST_SUITE_P(
    Store, BadFilterTest,
    testing::Values(
        BadFilterCase{"{" TENANT R"(, "store": "sqlite"})", "store: a string; allowed: an object"},
        BadFilterCase{"{" TENANT R"(, "store": {"sqlite": {"path": "/a"}, "postgres": {}}})",
                      "store.postgres: given together with another field of which only one may be "
                      "set; allowed: one of them"},
        BadFilterCase{"{" TENANT R"(, "store": {"redis": {}}})",
                      "store.redis: unknown field; allowed: postgres, sqlite"},
        BadFilterCase{POSTGRES(""),
                      "store.postgres.conninfo: missing; allowed: a libpq connection string"},
        // A number may be a secret too.
        BadFilterCase{POSTGRES(R"("conninfo": 31337)"),
                      "store.postgres.conninfo: a number; allowed: a string"},
        BadFilterCase{POSTGRES(R"("conninfo": "host=a", "password_file": 31337)"),
                      "store.postgres.password_file: a number; allowed: a string"},
        BadFilterCase{POSTGRES(R"("conninfo": "host=a", "connections": 0)"),
                      "store.postgres.connections: 0; allowed: 1 to 64"},
        BadFilterCase{POSTGRES(R"("conninfo": "host=a", "connections": 65)"),
                      "store.postgres.connections: 65; allowed: 1 to 64"},
        BadFilterCase{POSTGRES(R"("conninfo": "host=a", "timeout": "0s")"),
                      "store.postgres.timeout: 0s; allowed: 0.01s to 60s"},
        BadFilterCase{POSTGRES(R"("conninfo": "host=a", "timeout": "61s")"),
                      "store.postgres.timeout: 61s; allowed: 0.01s to 60s"},
        BadFilterCase{POSTGRES(R"("conninfo": "host=a", "password_file": "")"),
                      "store.postgres.password_file: empty; allowed: an absolute path, starting "
                      "with a slash"},
        BadFilterCase{"{" TENANT R"(, "store": {"sqlite": {}}})",
                      "store.sqlite.path: empty; allowed: an absolute path, starting with a slash"},
        BadFilterCase{"{" TENANT R"(, "store": {"sqlite": {"path": "i.db"}}})",
                      "store.sqlite.path: something else (not shown); allowed: an absolute path, "
                      "starting with a slash"},
        BadFilterCase{"{" TENANT R"(, "store": {"sqlite": {"path": "/d", "timeout": "1ms"}}})",
                      "store.sqlite.timeout: \"1ms\"; allowed: " DURATION_WORDS}));

INSTANTIATE_TEST_SUITE_P(
    Tenant, BadFilterTest,
    testing::Values(
        BadFilterCase{SOURCES("[]"),
                      "tenant.sources: an empty list; allowed: at least one entry, or leave the "
                      "field out"},
        BadFilterCase{SOURCES(R"(["x-tenant"])"),
                      "tenant.sources[0]: a string; allowed: an object"},
        BadFilterCase{SOURCES("[{}]"),
                      "tenant.sources[0]: empty; allowed: one of header, metadata, peer_uri_san, "
                      "fixed"},
        BadFilterCase{SOURCES(R"([{"header": ""}])"),
                      "tenant.sources[0].header: empty; allowed: a header name"},
        BadFilterCase{SOURCES(R"([{"header": "idempotency-key"}])"),
                      "tenant.sources[0].header: \"idempotency-key\"; allowed: a header that the "
                      "filter does not use itself"},
        BadFilterCase{SOURCES(R"([{"header": "a", "fixed": "b"}])"),
                      "tenant.sources[0].fixed: given together with another field of which only "
                      "one may be set; allowed: one of them"},
        BadFilterCase{
            SOURCES(R"([{"header": "a"}, {"header": "A"}])"),
            "tenant.sources[1]: the same as an earlier source; allowed: each source once"},
        BadFilterCase{SOURCES(R"([{"fixed": "a"}, {"header": "b"}])"),
                      "tenant.sources[1]: after a fixed source, so never asked; allowed: a fixed "
                      "source only as the last"},
        BadFilterCase{SOURCES(R"([{"metadata": {"key": "k"}}])"),
                      "tenant.sources[0].metadata.namespace: empty; allowed: 1 to 255 bytes of "
                      "printable ASCII"},
        BadFilterCase{SOURCES(R"([{"peer_uri_san": true}])"),
                      "tenant.sources[0].peer_uri_san: a bool; allowed: an object"},
        BadFilterCase{SOURCES(R"([{"fixed": "tab\there"}])"),
                      "tenant.sources[0].fixed: \"tab\\x09here\"; allowed: 0 to 255 bytes of "
                      "printable ASCII"},
        BadFilterCase{SOURCES(R"([{"header":"a"},{"header":"b"},{"header":"c"},{"header":"d"},
                                  {"header":"e"},{"header":"f"},{"header":"g"},{"header":"h"},
                                  {"header":"i"}])"),
                      "tenant.sources (entries): 9; allowed: 1 to 8"}));

INSTANTIATE_TEST_SUITE_P(
    Settings, BadFilterTest,
    testing::Values(
        BadFilterCase{WITH(R"("replay_cache": {"max_bytes": 17179869185})"),
                      "replay_cache.max_bytes: 17179869185; allowed: 0 to 17179869184"},
        BadFilterCase{WITH(R"("replay_cache": {"max_age": "0s"})"),
                      "replay_cache.max_age: 0s; allowed: 1s to 86400s"},
        BadFilterCase{WITH(R"("limits": {"in_flight": 0})"),
                      "limits.in_flight: 0; allowed: 1 to 1000000"},
        BadFilterCase{WITH(R"("limits": {"queue_bytes": 1048575})"),
                      "limits.queue_bytes: 1048575; allowed: 1048576 to 4294967296"},
        BadFilterCase{WITH(R"("limits": {"tenant_key_rate": 0})"),
                      "limits.tenant_key_rate: 0; allowed: 1 to 1000000"},
        BadFilterCase{WITH(R"("limits": {"tenant_live_keys": 0})"),
                      "limits.tenant_live_keys: 0; allowed: 1 to 1000000000"},
        BadFilterCase{WITH(R"("maintenance": {"sweep_interval": "0s"})"),
                      "maintenance.sweep_interval: 0s; allowed: 1s to 3600s"},
        BadFilterCase{WITH(R"("maintenance": {"reap_interval": "86401s"})"),
                      "maintenance.reap_interval: 86401s; allowed: 1s to 86400s"},
        BadFilterCase{WITH(R"("maintenance": {"soft_expire": 1})"),
                      "maintenance.soft_expire: 1; allowed: true or false"},
        BadFilterCase{WITH(R"("encryption": {})"),
                      "encryption.keys: missing; allowed: 1 to 16 keys"},
        BadFilterCase{WITH(R"("encryption": {"keys": [{"id": "a b", "file": "/k"}]})"),
                      "encryption.keys[0].id: \"a b\"; allowed: 1 to 32 of A-Z a-z 0-9 . _ -"},
        BadFilterCase{WITH(R"("encryption": {"keys": [{"file": "/k"}]})"),
                      "encryption.keys[0].id: empty; allowed: 1 to 32 of A-Z a-z 0-9 . _ -"},
        BadFilterCase{WITH(R"("encryption": {"keys": [{"id": "a", "file": "s3cret"}]})"),
                      "encryption.keys[0].file: something else (not shown); allowed: an absolute "
                      "path, starting with a slash"},
        BadFilterCase{WITH(R"("encryption": {"keys": [{"id": "a", "file": "/k"},
                                                      {"id": "a", "file": "/l"}]})"),
                      "encryption.keys[1].id: \"a\"; allowed: each id once"},
        BadFilterCase{WITH(R"("reconcile": {"path": "/x"})"),
                      "reconcile.cluster: empty; allowed: 1 to 255 bytes of printable ASCII"},
        BadFilterCase{WITH(R"("reconcile": {"cluster": "c"})"),
                      "reconcile.path: empty; allowed: 1 to 255 bytes of printable ASCII"},
        BadFilterCase{WITH(R"("reconcile": {"cluster": "c", "path": "x?y"})"),
                      "reconcile.path: \"x?y\"; allowed: a path that starts with a slash, without "
                      "query, fragment and spaces"},
        BadFilterCase{WITH(R"("reconcile": {"cluster": "c", "path": "/x", "authority": ""})"),
                      "reconcile.authority: empty; allowed: 1 to 255 bytes of printable ASCII"},
        BadFilterCase{WITH(R"("reconcile": {"cluster": "c", "path": "/x", "timeout": "0s"})"),
                      "reconcile.timeout: 0s; allowed: 0.01s to 60s"},
        BadFilterCase{
            WITH(R"("reconcile": {"cluster": "c", "path": "/x", "max_delay": "9s"})"),
            "reconcile.first_delay: 10s; allowed: up to reconcile.max_delay, which is 9s"},
        BadFilterCase{WITH(R"("reconcile": {"cluster": "c", "path": "/x", "max_attempts": 0})"),
                      "reconcile.max_attempts: 0; allowed: 1 to 1000"}));

TEST(ConfigTest, RouteWithoutPolicyIsRefused) {
  for (const std::string_view json : {"", "{}"}) {
    const auto route = loadRouteConfig(json);
    ASSERT_FALSE(route.ok());
    EXPECT_EQ(messageOf(route.status()),
              "policy: missing; allowed: the route's policy, such as { enforcement: REQUIRED }");
  }
}

TEST(ConfigTest, RouteTakesNoFieldOfTheFilter) {
  const auto route = loadRouteConfig(R"({"policy": {}, "store": {}})");
  ASSERT_FALSE(route.ok());
  EXPECT_EQ(messageOf(route.status()), "store: unknown field; allowed: policy");
}

// --- Contradictions between the levels
// --------------------------------------------------------------------

TEST(ConfigTest, LevelsThatAreGoodAloneMayContradictEachOther) {
  struct Case {
    const char* filter;
    const char* route;
    const char* message;
  };
  for (const Case& test : {
           Case{R"({"max_key_length": 50})", R"({"min_key_length": 60})",
                "policy.min_key_length: 60; allowed: up to policy.max_key_length, which is 50"},
           Case{R"({"lease": "120s"})", R"({"ttl": "60s"})",
                "policy.ttl: 60s; allowed: at least policy.lease, which is 120s"},
           Case{R"({"completion_timeout": "20s"})", R"({"lease": "10s"})",
                "policy.completion_timeout: 20s; allowed: up to policy.lease, which is 10s"},
           Case{
               R"({"released_statuses": [404]})", R"({"retryable_statuses": [404]})",
               "policy.released_statuses: 404, which is in policy.retryable_statuses too; allowed: "
               "statuses that are not in policy.retryable_statuses"},
           Case{R"({"max_key_length": 30})", R"({"uuid_only": true})",
                "policy.uuid_only: true with key lengths 16 to 30; allowed: only where keys of 36 "
                "characters are allowed"},
       }) {
    const FilterConfig filter =
        mustLoadFilter(filterJson(fmt::format(R"("policy": {})", test.filter)));
    const RouteConfig route = mustLoadRoute(test.route);
    const auto policy = resolvePolicy(filter, &route);
    ASSERT_FALSE(policy.ok()) << test.route;
    EXPECT_EQ(messageOf(policy.status()), test.message);
  }
}

// --- Secrets
// ----------------------------------------------------------------------------------------------

class SecretTest : public testing::TestWithParam<const char*> {};

TEST_P(SecretTest, NeverReachesAnErrorMessage) {
  const auto filter = loadFilterConfig(GetParam());
  ASSERT_FALSE(filter.ok()) << GetParam();
  EXPECT_THAT(messageOf(filter.status()), Not(HasSubstr("hunter2")));
}

INSTANTIATE_TEST_SUITE_P(
    Places, SecretTest,
    testing::Values(POSTGRES(R"("conninfo": "host=a password=hunter2")"),
                    POSTGRES(R"("conninfo": "host=a password = 'hunter2'")"),
                    POSTGRES(R"("conninfo": "host=a sslpassword=hunter2")"),
                    POSTGRES(R"("conninfo": "postgresql://u:hunter2@h/db")"),
                    POSTGRES(R"("conninfo": "postgres://u@h/db?password=hunter2")"),
                    POSTGRES(R"("conninfo": "postgres://u@h/db?p%61ssword=hunter2")"),
                    POSTGRES(R"("conninfo": "hunter2")"), POSTGRES(R"("conninfo": ["hunter2"])"),
                    POSTGRES(R"("conninfo": {"password": "hunter2"})"),
                    POSTGRES(R"("conninfo": "host=a", "password": "hunter2")"),
                    POSTGRES(R"("conninfo": "host=a", "password_file": "hunter2")"),
                    POSTGRES(R"("conninfo": "host=a", "password_file": ["hunter2"])"),
                    // Not even when the JSON is broken next to it.
                    R"({"store": {"postgres": {"conninfo": "password=hunter2")",
                    R"({"store": {"postgres": {"conninfo": "password=hunter2", }}})",
                    R"({"store": "postgresql://u:hunter2@h/db"})",
                    R"({"store": {"postgres": "host=a password=hunter2"}})",
                    R"({"store": {"sqlite": {"path": "hunter2"}}})",
                    WITH(R"("encryption": {"keys": [{"id": "a", "file": "hunter2"}]})"),
                    WITH(R"("encryption": {"keys": ["hunter2"]})")));

TEST(ConfigTest, HugeConfigIsRefused) {
  const auto filter = loadFilterConfig(std::string(5 << 20, ' '));
  ASSERT_FALSE(filter.ok());
  EXPECT_EQ(messageOf(filter.status()),
            "config: 5242880 bytes; allowed: up to 4194304 bytes of JSON");
}

TEST(ConfigTest, DeepConfigIsRefused) {
  const auto filter = loadFilterConfig(std::string(100, '[') + std::string(100, ']'));
  ASSERT_FALSE(filter.ok());
  EXPECT_THAT(messageOf(filter.status()), testing::StartsWith("config: not JSON"));
}

TEST(ConfigTest, ManyErrorsAreCutShort) {
  std::string fields;
  for (int i = 0; i < 12; ++i) {
    fields += fmt::format(R"({}"x{}": 1)", i == 0 ? "" : ", ", i);
  }
  const auto route = loadRouteConfig("{" + fields + "}");
  ASSERT_FALSE(route.ok());
  EXPECT_THAT(messageOf(route.status()), HasSubstr("x9: unknown field"));
  EXPECT_THAT(messageOf(route.status()), Not(HasSubstr("x10: unknown field")));
  EXPECT_THAT(messageOf(route.status()), testing::EndsWith(" | and 2 more"));
}

}  // namespace
}  // namespace idempotency
