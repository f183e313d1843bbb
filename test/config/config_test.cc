#include "source/config/config.h"

#include <fmt/format.h>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace idempotency::config {
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
protocol::Policy mustResolve(std::string_view route_policy) {
  const FilterConfig filter = mustLoadFilter(filterJson(""));
  const RouteConfig route = mustLoadRoute(route_policy);
  auto policy = resolvePolicy(filter, &route);
  EXPECT_TRUE(policy.ok()) << policy.status();
  return policy.ok() ? *policy : protocol::Policy{};
}

// --- Defaults and fall-back
// -------------------------------------------------------------------------------

TEST(ConfigTest, SilentConfigGivesTheDocumentedDefaults) {
  const protocol::Policy policy = mustResolve("{}");
  EXPECT_EQ(policy.enforcement, protocol::Enforcement::Off);
  EXPECT_THAT(policy.methods, ElementsAre("PATCH", "POST"));
  EXPECT_EQ(policy.key.syntax, key::KeySyntax::Strict);
  EXPECT_EQ(policy.key.min_length, 16u);
  EXPECT_EQ(policy.key.max_length, 255u);
  EXPECT_FALSE(policy.key.uuid_only);
  EXPECT_EQ(policy.scope, protocol::Scope::TenantAndOperation);
  EXPECT_EQ(policy.operation, "");
  EXPECT_EQ(policy.fingerprint.mode, fingerprint::FingerprintMode::Canonical);
  EXPECT_FALSE(policy.fingerprint.principal);
  EXPECT_TRUE(policy.fingerprint.authority);
  EXPECT_EQ(policy.fingerprint.query, fingerprint::QueryOrder::Sorted);
  EXPECT_EQ(policy.principal, std::nullopt);
  EXPECT_EQ(policy.flavor, protocol::Flavor::Ietf);
  EXPECT_EQ(policy.mismatch_status, 422);
  EXPECT_EQ(policy.in_flight, (protocol::InFlightRules{protocol::InFlightAction::Reject, 0ms, 1s}));
  EXPECT_EQ(policy.on_store_failure, protocol::StoreFailure::FailClosed);
  EXPECT_EQ(policy.ttl, 24h);
  EXPECT_EQ(policy.lease, 30s);
  EXPECT_EQ(policy.on_lease_expired, protocol::LeaseExpired::Unknown);
  EXPECT_EQ(policy.on_expired, protocol::ExpiredKey::Run);
  EXPECT_EQ(policy.unknown_retention, std::nullopt);
  for (int status = 100; status <= 599; ++status) {
    EXPECT_EQ(policy.retryable_statuses.contains(status),
              status == 425 || status == 429 || status == 500 || status == 503)
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
  EXPECT_EQ(config.store, protocol::StoreSettings(protocol::SqliteSettings{"/var/lib/i.db", 1s}));
  EXPECT_THAT(config.tenant_sources, ElementsAre(protocol::NameSource(protocol::FixedSource{""})));
  EXPECT_EQ(config.replay_cache, (protocol::ReplayCacheSettings{16777216, 60s}));
  EXPECT_EQ(config.limits, (protocol::LimitSettings{10000, 67108864, std::nullopt, std::nullopt,
                                                    268435456, std::nullopt, std::nullopt}));
  EXPECT_EQ(config.maintenance, (protocol::MaintenanceSettings{true, 60s, 60s, false}));
  EXPECT_EQ(config.encryption, std::nullopt);
  EXPECT_TRUE(config.reconcile.empty());
  EXPECT_EQ(config.private_listener, std::nullopt);
  EXPECT_EQ(mustLoadFilter(filterJson(R"("private_listener": {"path": "/s"})")).private_listener,
            (protocol::PrivateListenerSettings{"/s", 5s, 10000}));
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
  EXPECT_EQ(own->enforcement, protocol::Enforcement::Required);
  EXPECT_EQ(own->ttl, 200s);
  EXPECT_EQ(own->lease, 10s);
  EXPECT_TRUE(own->retryable_statuses.empty());
  EXPECT_THAT(own->unstored_headers, IsEmpty());
  EXPECT_EQ(own->completion_timeout, 5s);

  const auto none = resolvePolicy(filter, nullptr);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->enforcement, protocol::Enforcement::Optional);
  EXPECT_EQ(none->ttl, 100s);
  EXPECT_TRUE(none->retryable_statuses.contains(500));
  EXPECT_FALSE(none->retryable_statuses.contains(429));
  EXPECT_THAT(none->unstored_headers, ElementsAre("x-a"));
}

TEST(ConfigTest, EveryFieldFallsBackToTheFilter) {
  const std::string_view all = R"({
    "enforcement": "OPTIONAL", "methods": ["PUT"], "key_syntax": "RAW", "min_key_length": 20,
    "max_key_length": 100, "uuid_only": true, "scope": "TENANT", "operation": "op",
    "fingerprint": {"mode": "RAW", "headers": ["x-b"], "principal": {"header": "x-user"},
                    "authority": false, "query": "AS_SENT"},
    "flavor": "STRIPE", "mismatch_status": 409,
    "in_flight": {"action": "WAIT", "wait": "2s", "retry_after": "3s"},
    "on_store_failure": "FAIL_OPEN", "ttl": "100s", "lease": "10s", "on_lease_expired": "RETRY",
    "on_expired": "GONE", "unknown_retention": "7200s", "retryable_statuses": [500], "released_statuses": [404],
    "max_request_bytes": 10, "max_response_bytes": 20, "store_response": false,
    "unstored_headers": ["x-a"], "completion_timeout": "1s", "docs_url": "https://d.example/x",
    "detached": {"timeout": "9s"},
    "max_request_age": {"header": "x-time", "limit": "60s"}})";
  const FilterConfig filter = mustLoadFilter(filterJson(
      fmt::format(R"("private_listener": {{"path": "/run/runs.sock"}}, "policy": {})", all)));
  const RouteConfig route = mustLoadRoute("{}");
  const auto policy = resolvePolicy(filter, &route);
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ(policy->enforcement, protocol::Enforcement::Optional);
  EXPECT_THAT(policy->methods, ElementsAre("PUT"));
  EXPECT_EQ(policy->key.syntax, key::KeySyntax::Raw);
  EXPECT_EQ(policy->key.min_length, 20u);
  EXPECT_EQ(policy->key.max_length, 100u);
  EXPECT_TRUE(policy->key.uuid_only);
  EXPECT_EQ(policy->scope, protocol::Scope::Tenant);
  EXPECT_EQ(policy->operation, "op");
  EXPECT_EQ(policy->fingerprint.mode, fingerprint::FingerprintMode::Raw);
  EXPECT_THAT(policy->fingerprint.headers, ElementsAre("x-b"));
  EXPECT_TRUE(policy->fingerprint.principal);
  EXPECT_FALSE(policy->fingerprint.authority);
  EXPECT_EQ(policy->fingerprint.query, fingerprint::QueryOrder::AsSent);
  EXPECT_EQ(policy->principal, protocol::NameSource(protocol::HeaderSource{"x-user"}));
  EXPECT_EQ(policy->flavor, protocol::Flavor::Stripe);
  EXPECT_EQ(policy->mismatch_status, 409);
  EXPECT_EQ(policy->in_flight, (protocol::InFlightRules{protocol::InFlightAction::Wait, 2s, 3s}));
  EXPECT_EQ(policy->on_store_failure, protocol::StoreFailure::FailOpen);
  EXPECT_EQ(policy->ttl, 100s);
  EXPECT_EQ(policy->lease, 10s);
  EXPECT_EQ(policy->on_lease_expired, protocol::LeaseExpired::Retry);
  EXPECT_EQ(policy->on_expired, protocol::ExpiredKey::Gone);
  EXPECT_EQ(policy->unknown_retention, 7200s);
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
  EXPECT_EQ(policy->detached, (protocol::DetachedRules{9s}));
  EXPECT_EQ(policy->max_request_age, (protocol::RequestAgeRules{"x-time", 60s}));

  // … and the route's own values win, for the same fields.
  const RouteConfig other = mustLoadRoute(R"({
    "enforcement": "REQUIRED", "methods": ["DELETE"], "key_syntax": "EITHER", "min_key_length": 1,
    "max_key_length": 40, "uuid_only": false, "scope": "TENANT_AND_OPERATION", "operation": "p",
    "fingerprint": {"mode": "NONE"}, "flavor": "IETF", "mismatch_status": 400,
    "in_flight": {"action": "ACCEPTED"}, "on_store_failure": "FAIL_CLOSED", "ttl": "50s",
    "lease": "20s", "on_lease_expired": "UNKNOWN", "on_expired": "RUN", "unknown_retention": "9000s",
    "retryable_statuses": ["4xx"], "released_statuses": [], "max_request_bytes": 0,
    "max_response_bytes": 0, "store_response": true, "unstored_headers": ["X-C", "x-b"],
    "completion_timeout": "2s", "docs_url": "http://e.example", "detached": {},
    "max_request_age": {"header": "X-Sent", "limit": "30s"}})");
  const auto own = resolvePolicy(filter, &other);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->enforcement, protocol::Enforcement::Required);
  EXPECT_THAT(own->methods, ElementsAre("DELETE"));
  EXPECT_EQ(own->key.syntax, key::KeySyntax::Either);
  EXPECT_EQ(own->key.min_length, 1u);
  EXPECT_EQ(own->key.max_length, 40u);
  EXPECT_FALSE(own->key.uuid_only);
  EXPECT_EQ(own->scope, protocol::Scope::TenantAndOperation);
  EXPECT_EQ(own->operation, "p");
  EXPECT_EQ(own->fingerprint.mode, fingerprint::FingerprintMode::None);
  EXPECT_THAT(own->fingerprint.headers, IsEmpty());
  EXPECT_FALSE(own->fingerprint.principal);
  EXPECT_EQ(own->principal, std::nullopt);
  EXPECT_EQ(own->flavor, protocol::Flavor::Ietf);
  EXPECT_EQ(own->mismatch_status, 400);
  EXPECT_EQ(own->in_flight, (protocol::InFlightRules{protocol::InFlightAction::Accepted, 0ms, 1s}));
  EXPECT_EQ(own->on_store_failure, protocol::StoreFailure::FailClosed);
  EXPECT_EQ(own->ttl, 50s);
  EXPECT_EQ(own->lease, 20s);
  EXPECT_EQ(own->on_lease_expired, protocol::LeaseExpired::Unknown);
  EXPECT_EQ(own->on_expired, protocol::ExpiredKey::Run);
  EXPECT_EQ(own->unknown_retention, 9000s);
  EXPECT_TRUE(own->retryable_statuses.contains(404));
  EXPECT_TRUE(own->released_statuses.empty());
  EXPECT_EQ(own->max_request_bytes, 0u);
  EXPECT_EQ(own->max_response_bytes, 0u);
  EXPECT_TRUE(own->store_response);
  EXPECT_THAT(own->unstored_headers, ElementsAre("x-b", "x-c"));
  EXPECT_EQ(own->completion_timeout, 2s);
  EXPECT_EQ(own->docs_url, "http://e.example");
  EXPECT_EQ(own->detached, (protocol::DetachedRules{60s}));
  EXPECT_EQ(own->max_request_age, (protocol::RequestAgeRules{"x-sent", 30s}));
}

TEST(ConfigTest, MismatchStatusFollowsTheFlavorThatWins) {
  const FilterConfig filter = mustLoadFilter(filterJson(R"("policy": {"flavor": "STRIPE"})"));
  EXPECT_EQ(resolvePolicy(filter, nullptr)->mismatch_status, 400);
  const RouteConfig route = mustLoadRoute(R"({"flavor": "IETF"})");
  EXPECT_EQ(resolvePolicy(filter, &route)->mismatch_status, 422);
}

TEST(ConfigTest, CoversOnlyConfiguredMethodsOfRoutesThatEnforce) {
  const protocol::Policy on =
      mustResolve(R"({"enforcement": "OPTIONAL", "methods": ["POST", "DELETE"]})");
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
  const protocol::Policy policy = mustResolve(
      R"({"minKeyLength": 3.0, "max_key_length": 1e2, "maxRequestBytes": "77", "keySyntax": "RAW",
          "maxResponseBytes": 1048576.0, "retryableStatuses": [503.0, "4xx"],
          "releasedStatuses": [], "inFlight": {"retryAfter": "2s"}})");
  EXPECT_EQ(policy.key.min_length, 3u);
  EXPECT_EQ(policy.key.max_length, 100u);
  EXPECT_EQ(policy.key.syntax, key::KeySyntax::Raw);
  EXPECT_EQ(policy.max_request_bytes, 77u);
  EXPECT_EQ(policy.max_response_bytes, 1048576u);
  EXPECT_TRUE(policy.retryable_statuses.contains(503));
  EXPECT_FALSE(policy.retryable_statuses.contains(502));
  EXPECT_TRUE(policy.retryable_statuses.contains(499));
  EXPECT_EQ(policy.in_flight.retry_after, 2s);
}

void expectFull(const protocol::ReconcileSettings& entry) {
  protocol::ReconcileSettings expected;
  expected.operations = {"pay", "refund"};
  expected.cluster = "c";
  expected.path = *protocol::QuestionTemplate::parse("/o/{attempt}?t={tenant}");
  expected.method = "POST";
  expected.authority = "a";
  expected.headers = {{"x-key", *protocol::QuestionTemplate::parse("k {key}")}};
  expected.timeout = 2s;
  expected.interval = 5s;
  expected.max_interval = 50s;
  expected.max_tries = 3;
  expected.max_parallel = 4;
  expected.absent_final_after = 300s;
  expected.response = {.status = *fingerprint::JsonPointer::parse("/status"),
                       .headers = *fingerprint::JsonPointer::parse("/headers"),
                       .body = *fingerprint::JsonPointer::parse("")};
  expected.store_response = false;
  expected.max_response_bytes = 9;
  EXPECT_EQ(entry, expected);
}

TEST(ConfigTest, ReconcileDefaultsAreTheDocumentedOnes) {
  const FilterConfig config =
      mustLoadFilter(filterJson(R"("reconcile": [{"cluster": "c", "path": "/p"}])"));
  ASSERT_EQ(config.reconcile.size(), 1U);
  const protocol::ReconcileSettings& entry = config.reconcile[0];
  EXPECT_TRUE(entry.operations.empty());
  EXPECT_EQ(entry.method, "GET");
  EXPECT_EQ(entry.authority, "c");
  EXPECT_EQ(entry.timeout, 1s);
  EXPECT_EQ(entry.interval, 10s);
  EXPECT_EQ(entry.max_interval, 600s);
  EXPECT_EQ(entry.max_tries, 10U);
  EXPECT_EQ(entry.max_parallel, 8U);
  EXPECT_FALSE(entry.absent_is_final);
  EXPECT_EQ(entry.absent_final_after, std::nullopt);
  EXPECT_TRUE(entry.store_response);
  EXPECT_EQ(entry.max_response_bytes, 1U << 20);
}

TEST(ConfigTest, EachOperationHasOneEntry) {
  const FilterConfig config = mustLoadFilter(filterJson(
      R"("reconcile": [{"operations": ["a"], "cluster": "one", "path": "/"},
                       {"cluster": "rest", "path": "/"}])"));
  EXPECT_EQ(protocol::entryFor(config.reconcile, "a")->cluster, "one");
  EXPECT_EQ(protocol::entryFor(config.reconcile, "b")->cluster, "rest");
  EXPECT_EQ(protocol::entryFor(config.reconcile, "")->cluster, "rest");
  const FilterConfig named = mustLoadFilter(
      filterJson(R"("reconcile": [{"operations": ["a"], "cluster": "one", "path": "/"}])"));
  EXPECT_EQ(protocol::entryFor(named.reconcile, "b"), nullptr);
}

TEST(ConfigTest, FullFilterConfigLoads) {
  const FilterConfig config = mustLoadFilter(R"({
    "private_listener": {"path": "/run/runs.sock", "accept_timeout": "0.25s", "max_runs": 5},
    "status_resource": {"prefix": "/a/b/", "secret_file": "/run/s"},
    "reconcile": [
      {"operations": ["pay", "refund"], "cluster": "c", "path": "/o/{attempt}?t={tenant}",
       "method": "POST", "authority": "a", "headers": [{"name": "X-Key", "value": "k {key}"}],
       "timeout": "2s", "interval": "5s", "max_interval": "50s", "max_tries": 3,
       "max_parallel": 4, "absent_final_after": "300s",
       "response": {"status_pointer": "/status", "headers_pointer": "/headers",
                    "body_pointer": ""},
       "store_response": false, "max_response_bytes": 9},
      {"cluster": "d", "path": "/", "absent_is_final": true}],
    "encryption": {"keys": [{"id": "k.2", "file": "/run/k2"}, {"id": "k-1", "file": "/run/k1"}]},
    "maintenance": {"enabled": false, "sweep_interval": "30s", "reap_interval": "90s",
                    "soft_expire": true},
    "limits": {"in_flight": 5, "queue_bytes": 1048576, "tenant_key_rate": 7,
               "tenant_live_keys": 8, "held_bytes": 8388608, "tenant_in_flight": 4,
               "tenant_waiters": 3},
    "replay_cache": {"max_bytes": 0, "max_age": "1.5s"},
    "tenant": {"sources": [{"header": "X-Tenant-Id"},
                           {"metadata": {"namespace": "my.auth", "key": "tenant"}},
                           {"peer_uri_san": {}}, {"fixed": "rest"}]},
    "store": {"postgres": {"conninfo": "host=db user=f sslmode=verify-full",
                           "password_file": "/run/secrets/pg", "connections": 8,
                           "timeout": "0.5s", "allow_asynchronous_commit": true}}})");
  EXPECT_EQ(config.store,
            protocol::StoreSettings(protocol::PostgresSettings{"host=db user=f sslmode=verify-full",
                                                               "/run/secrets/pg", 8, 500ms, true}));
  EXPECT_THAT(config.tenant_sources,
              ElementsAre(protocol::NameSource(protocol::HeaderSource{"x-tenant-id"}),
                          protocol::NameSource(protocol::MetadataSource{"my.auth", "tenant"}),
                          protocol::NameSource(protocol::PeerUriSanSource{}),
                          protocol::NameSource(protocol::FixedSource{"rest"})));
  EXPECT_EQ(config.replay_cache, (protocol::ReplayCacheSettings{0, 1500ms}));
  EXPECT_EQ(config.limits, (protocol::LimitSettings{5, 1048576, 7, 8, 8388608, 4, 3}));
  EXPECT_EQ(config.maintenance, (protocol::MaintenanceSettings{false, 30s, 90s, true}));
  EXPECT_EQ(config.encryption,
            (protocol::EncryptionSettings{{{"k.2", "/run/k2"}, {"k-1", "/run/k1"}}}));
  ASSERT_EQ(config.reconcile.size(), 2U);
  expectFull(config.reconcile[0]);
  protocol::ReconcileSettings rest;
  rest.cluster = rest.authority = "d";
  rest.path = *protocol::QuestionTemplate::parse("/");
  rest.absent_is_final = true;
  EXPECT_EQ(config.reconcile[1], rest);
  EXPECT_EQ(config.private_listener,
            (protocol::PrivateListenerSettings{"/run/runs.sock", 250ms, 5}));
  EXPECT_EQ(config.status_resource, (protocol::StatusResourceSettings{"/a/b/", "/run/s"}));
}

TEST(ConfigTest, OneOfSeveralTenantsGetsHalfByDefault) {
  const auto share = [](std::string_view sources, std::string_view given) {
    return mustLoadFilter(fmt::format(R"({{"store": {{"sqlite": {{"path": "/d"}}}},
                                         "tenant": {{"sources": [{}]}}, "limits": {{{}}}}})",
                                      sources, given))
        .tenant_share;
  };
  EXPECT_EQ(share(R"({"fixed": ""})", ""), std::nullopt);
  EXPECT_EQ(share(R"({"header": "x"})", ""), (protocol::TenantShare{5000, 2500, 96u << 20}));
  EXPECT_EQ(share(R"({"header": "x"}, {"fixed": "rest"})", ""),
            (protocol::TenantShare{5000, 2500, 96u << 20}));
  EXPECT_EQ(share(R"({"header": "x"})", R"("in_flight": 1)"), std::nullopt);
  EXPECT_EQ(share(R"({"header": "x"})", R"("in_flight": 3, "held_bytes": 16777216)"),
            (protocol::TenantShare{2, 1, 6u << 20}));
  EXPECT_EQ(share(R"({"fixed": ""})", R"("in_flight": 9, "tenant_in_flight": 7)"),
            (protocol::TenantShare{7, 7, 96u << 20}));
  EXPECT_EQ(share(R"({"fixed": ""})", R"("in_flight": 9, "tenant_waiters": 1)"),
            (protocol::TenantShare{9, 1, 192u << 20}));
}

TEST(ConfigTest, RouteMayNotTakeLargerRequestsThanATenantMayHold) {
  const FilterConfig filter = mustLoadFilter(R"({"store": {"sqlite": {"path": "/d"}},
      "tenant": {"sources": [{"header": "x"}]}, "limits": {"held_bytes": 8388608}})");
  const auto route = [&](uint64_t bytes) {
    const auto config =
        loadRouteConfig(fmt::format(R"({{"policy": {{"max_request_bytes": {}}}}})", bytes));
    return resolvePolicy(filter, &*config).status();
  };
  EXPECT_TRUE(route(3145728).ok());
  EXPECT_EQ(route(3145729).message(),
            "policy.max_request_bytes: got 3145729; expected at most 3145728, the limit for the "
            "requests of one tenant (see limits.held_bytes)");
}

// A claim comes back after the store's timeout at the latest: its lease must not be over then.
TEST(ConfigTest, LeaseIsNotShorterThanTheStoresTimeout) {
  constexpr std::string_view Stores[] = {R"("sqlite": {"path": "/d", "timeout": "2s"})",
                                         R"("postgres": {"conninfo": "host=a", "timeout": "2s"})"};
  constexpr std::string_view Refused =
      "policy.lease: got 1.999s; expected at least the store's timeout (2s)";
  for (const std::string_view store : Stores) {
    const auto filter = [&](std::string_view lease) {
      return loadFilterConfig(fmt::format(R"({{"store": {{{}}}, {}, "policy": {{"lease": "{}",
                          "completion_timeout": "1s"}}}})",
                                          store, Tenant, lease));
    };
    EXPECT_TRUE(filter("2s").ok()) << filter("2s").status();
    EXPECT_EQ(messageOf(filter("1.999s").status()), Refused);
    const auto route = [&](std::string_view lease) {
      const auto config = loadRouteConfig(
          fmt::format(R"({{"policy": {{"lease": "{}", "completion_timeout": "1s"}}}})", lease));
      return resolvePolicy(*filter("30s"), &*config).status();
    };
    EXPECT_TRUE(route("2s").ok()) << route("2s");
    EXPECT_EQ(messageOf(route("1.999s")), Refused);
  }
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
  const auto filter = loadFilterConfig(
      filterJson(fmt::format(R"("private_listener": {{"path": "/s"}}, "policy": {})", GetParam())));
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
        R"({"fingerprint": {"mode": "NONE"}})", R"({"fingerprint": {"authority": true}})",
        R"({"fingerprint": {"authority": false, "query": "AS_SENT", "headers": ["if-match"]}})",
        R"({"fingerprint": {"principal": {"metadata": {"namespace": "n", "key": "k"}}}})",
        R"({"mismatch_status": 400})", R"({"mismatch_status": 409})", R"({"mismatch_status": 422})",
        R"({"in_flight": {}})", R"({"in_flight": {"action": "WAIT", "wait": "0.001s"}})",
        R"({"in_flight": {"action": "WAIT", "wait": "60s"}})",
        R"({"in_flight": {"retry_after": "3600s"}})", R"({"ttl": "2592000s"})",
        R"({"ttl": "1s", "lease": "1s", "completion_timeout": "1s"})", R"({"lease": "3600s"})",
        R"({"unknown_retention": "1s"})", R"({"unknown_retention": "315360000s"})",
        R"({"completion_timeout": "0.01s"})", R"({"completion_timeout": "30s"})",
        R"({"retryable_statuses": []})", R"({"retryable_statuses": [100, 599]})",
        R"({"retryable_statuses": ["1xx", "2xx", "3xx", "5xx"]})", R"({"released_statuses": []})",
        R"({"retryable_statuses": ["4xx"], "released_statuses": []})",
        R"({"server_errors": "RETRY", "retryable_statuses": ["5xx"]})",
        R"({"server_errors": "UNKNOWN"})",
        R"({"server_errors": "KEEP", "retryable_statuses": [429]})", R"({"max_request_bytes": 0})",
        R"({"max_request_bytes": 67108864})", R"({"max_response_bytes": 0})",
        R"({"max_response_bytes": 67108864})", R"({"unstored_headers": []})",
        R"({"unstored_headers": ["Location", "x_y.z"]})",
        R"({"docs_url": "https://developer.example.com/idempotency?lang=en"})",
        R"({"detached": {}})", R"({"detached": {"timeout": "0.001s"}})",
        R"({"detached": {"timeout": "3600s"}})",
        R"({"max_request_age": {"header": "date", "limit": "1s"}})"));

// --- Values that a policy refuses
// -------------------------------------------------------------------------

struct BadCase {
  const char* policy;
  const char*
      message;  // The whole message: the field's path, the given value, the expected values.
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

#define DURATION_WORDS "a duration in seconds, such as \"30s\" or \"0.25s\""
#define STATUS_WORDS "a status from 100 to 599, or a class such as \"5xx\""
#define URL_WORDS "an absolute http or https URL of at most 2048 bytes, without a fragment"
#define NAME_WORDS "a header name (letters, digits and characters such as - _ .)"

INSTANTIATE_TEST_SUITE_P(
    Fields, BadPolicyTest,
    testing::Values(
        BadCase{R"({"enforcement": "ALWAYS"})",
                R"(policy.enforcement: got "ALWAYS"; expected one of OFF, OPTIONAL, REQUIRED)"},
        BadCase{
            R"({"enforcement": "off"})",
            R"(policy.enforcement: got "off" (did you mean OFF?); expected one of OFF, OPTIONAL, REQUIRED)"},
        BadCase{R"({"enforcement": 1})",
                "policy.enforcement: got 1; expected one of OFF, OPTIONAL, REQUIRED"},
        BadCase{R"({"enforcement": true})",
                "policy.enforcement: got true; expected one of OFF, OPTIONAL, REQUIRED"},
        BadCase{
            R"({"enforcement": false})",
            R"(policy.enforcement: got false; expected one of OFF, OPTIONAL, REQUIRED (in YAML, write "OFF" in quotes))"},
        BadCase{R"({"enforcement": null})",
                "policy.enforcement: null is not allowed; omit the field"},
        BadCase{R"({"enforcement": "OFF", "enforcement": "OFF"})",
                "policy.enforcement: field is set twice"},
        BadCase{R"({"min_key_length": 20, "minKeyLength": 20})",
                "policy.min_key_length: field is set twice"},

        BadCase{R"({"methods": "POST"})", "policy.methods: got a string; expected a list"},
        BadCase{
            R"({"methods": []})",
            "policy.methods: got an empty list; expected at least one entry (or omit the field)"},
        BadCase{R"({"methods": [1]})", "policy.methods[0]: got 1; expected a string"},
        BadCase{R"({"methods": ["POST", "post"]})",
                "policy.methods[1]: got \"post\"; expected a method in upper case, such as POST"},
        BadCase{R"({"methods": [""]})",
                "policy.methods[0]: got \"\"; expected a method in upper case, such as POST"},
        BadCase{R"({"methods": ["PO ST"]})",
                "policy.methods[0]: got \"PO ST\"; expected a method in upper case, such as POST"},
        BadCase{R"({"methods": ["CONNECT"]})",
                "policy.methods[0]: \"CONNECT\" is not allowed; such requests cannot be protected"},
        BadCase{R"({"methods": ["OPTIONS"]})",
                "policy.methods[0]: \"OPTIONS\" is not allowed; such requests cannot be protected"},
        BadCase{R"({"methods": ["POST", "POST"]})", "policy.methods[1]: duplicate method \"POST\""},
        BadCase{
            R"({"methods": ["A","B","C","D","E","F","G","H","I","J","K","L","M","N","O","P","Q"]})",
            "policy.methods (entries): got 17; expected 1 to 16"},

        BadCase{R"({"key_syntax": "LOOSE"})",
                "policy.key_syntax: got \"LOOSE\"; expected one of STRICT, RAW, EITHER"},
        BadCase{R"({"min_key_length": 0})", "policy.min_key_length: got 0; expected 1 to 255"},
        BadCase{R"({"min_key_length": 256})", "policy.min_key_length: got 256; expected 1 to 255"},
        BadCase{R"({"min_key_length": -1})",
                "policy.min_key_length: got -1; expected a whole number from 0 to 4294967295"},
        BadCase{R"({"min_key_length": 3.5})",
                "policy.min_key_length: got 3.5; expected a whole number from 0 to 4294967295"},
        BadCase{R"({"min_key_length": "20"})",
                "policy.min_key_length: got \"20\"; expected a whole number from 0 to 4294967295"},
        BadCase{
            R"({"min_key_length": 4294967296})",
            "policy.min_key_length: got 4294967296; expected a whole number from 0 to 4294967295"},
        BadCase{R"({"min_key_length": 100, "max_key_length": 99})",
                "policy.min_key_length: got 100; expected at most policy.max_key_length (99)"},
        BadCase{R"({"max_key_length": 0})", "policy.max_key_length: got 0; expected 1 to 255"},
        BadCase{R"({"max_key_length": 256})", "policy.max_key_length: got 256; expected 1 to 255"},
        BadCase{R"({"max_key_length": 15})",
                "policy.min_key_length: got 16; expected at most policy.max_key_length (15)"},
        BadCase{R"({"uuid_only": "true"})",
                "policy.uuid_only: got \"true\"; expected true or false"},
        BadCase{R"({"uuid_only": 1})", "policy.uuid_only: got 1; expected true or false"},
        BadCase{R"({"uuid_only": true, "max_key_length": 35})",
                "policy.uuid_only: a UUID has 36 characters, but keys of 16 to 35 are allowed"},
        BadCase{R"({"uuid_only": true, "min_key_length": 37})",
                "policy.uuid_only: a UUID has 36 characters, but keys of 37 to 255 are allowed"},

        BadCase{R"({"scope": "GLOBAL"})",
                "policy.scope: got \"GLOBAL\"; expected one of TENANT_AND_OPERATION, TENANT"},
        BadCase{R"({"operation": ""})",
                "policy.operation: must not be empty; expected 1 to 255 bytes of printable ASCII"},
        BadCase{R"({"operation": "a\nb"})",
                "policy.operation: got \"a\\x0ab\"; expected 1 to 255 bytes of printable ASCII"},
        BadCase{R"({"operation": 5})", "policy.operation: got 5; expected a string"},

        BadCase{R"({"flavor": "ietf"})",
                "policy.flavor: got \"ietf\" (did you mean IETF?); expected one of IETF, STRIPE"},
        BadCase{R"({"mismatch_status": 404})",
                "policy.mismatch_status: got 404; expected 400, 409 or 422"},
        BadCase{R"({"mismatch_status": 0})",
                "policy.mismatch_status: got 0; expected 400, 409 or 422"},
        BadCase{R"({"on_store_failure": "OPEN"})",
                "policy.on_store_failure: got \"OPEN\"; expected one of FAIL_CLOSED, FAIL_OPEN"},
        BadCase{R"({"on_lease_expired": "RUN"})",
                "policy.on_lease_expired: got \"RUN\"; expected one of UNKNOWN, RETRY"},
        BadCase{R"({"on_expired": "410"})",
                "policy.on_expired: got \"410\"; expected one of RUN, GONE"},

        BadCase{R"({"unknown_retention": "0s"})",
                "policy.unknown_retention: got 0s; expected 1s to 315360000s"},
        BadCase{R"({"unknown_retention": "315360001s"})",
                "policy.unknown_retention: got 315360001s; expected 1s to 315360000s"},
        BadCase{R"({"ttl": 86400})", "policy.ttl: got 86400; expected " DURATION_WORDS},
        BadCase{R"({"ttl": "1d"})", "policy.ttl: got \"1d\"; expected " DURATION_WORDS},
        BadCase{R"({"ttl": ""})", "policy.ttl: got \"\"; expected " DURATION_WORDS},
        BadCase{R"({"ttl": {"seconds": 1}})",
                "policy.ttl: got an object; expected " DURATION_WORDS},
        BadCase{R"({"ttl": "0s"})", "policy.ttl: got 0s; expected 1s to 2592000s"},
        BadCase{R"({"ttl": "-1s"})", "policy.ttl: got -1s; expected 1s to 2592000s"},
        BadCase{R"({"ttl": "0.999s"})", "policy.ttl: got 0.999s; expected 1s to 2592000s"},
        BadCase{R"({"ttl": "2592000.001s"})",
                "policy.ttl: got 2592000.001s; expected 1s to 2592000s"},
        BadCase{R"({"ttl": "60.0001s"})",
                "policy.ttl: got a fraction of a millisecond; expected whole milliseconds"},
        BadCase{R"({"ttl": "29s"})", "policy.ttl: got 29s; expected at least policy.lease (30s)"},
        BadCase{R"({"lease": "0s"})", "policy.lease: got 0s; expected 1s to 3600s"},
        BadCase{R"({"lease": "3601s"})", "policy.lease: got 3601s; expected 1s to 3600s"},
        BadCase{R"({"lease": "2s", "completion_timeout": "2.001s"})",
                "policy.completion_timeout: got 2.001s; expected at most policy.lease (2s)"},
        BadCase{R"({"lease": "4s"})",
                "policy.completion_timeout: got 5s; expected at most policy.lease (4s)"},
        BadCase{R"({"completion_timeout": "0s"})",
                "policy.completion_timeout: got 0s; expected 0.01s to 60s"},
        BadCase{R"({"completion_timeout": "61s"})",
                "policy.completion_timeout: got 61s; expected 0.01s to 60s"},

        BadCase{R"({"retryable_statuses": "5xx"})",
                "policy.retryable_statuses: got a string; expected a list"},
        BadCase{R"({"retryable_statuses": ["6xx"]})",
                "policy.retryable_statuses[0]: got \"6xx\"; expected " STATUS_WORDS},
        BadCase{R"({"retryable_statuses": ["0xx"]})",
                "policy.retryable_statuses[0]: got \"0xx\"; expected " STATUS_WORDS},
        BadCase{R"({"retryable_statuses": ["5XX"]})",
                "policy.retryable_statuses[0]: got \"5XX\"; expected " STATUS_WORDS},
        BadCase{R"({"retryable_statuses": ["503"]})",
                "policy.retryable_statuses[0]: got \"503\"; expected " STATUS_WORDS},
        BadCase{R"({"retryable_statuses": [99]})",
                "policy.retryable_statuses[0]: got 99; expected " STATUS_WORDS},
        BadCase{R"({"retryable_statuses": [600]})",
                "policy.retryable_statuses[0]: got 600; expected " STATUS_WORDS},
        BadCase{R"({"retryable_statuses": [500.5]})",
                "policy.retryable_statuses[0]: got 500.5; expected " STATUS_WORDS},
        BadCase{R"({"retryable_statuses": [true]})",
                "policy.retryable_statuses[0]: got true; expected a string or a number"},
        BadCase{R"({"retryable_statuses": [[500]]})",
                "policy.retryable_statuses[0]: got a list; expected a string or a number"},
        BadCase{R"({"retryable_statuses": [500, 500]})",
                "policy.retryable_statuses[1]: 500 overlaps an earlier entry"},
        BadCase{R"({"retryable_statuses": ["5xx", 503]})",
                "policy.retryable_statuses[1]: 503 overlaps an earlier entry"},
        BadCase{R"({"retryable_statuses": [503, "5xx"]})",
                "policy.retryable_statuses[1]: \"5xx\" overlaps an earlier entry"},
        BadCase{R"({"released_statuses": ["x"]})",
                "policy.released_statuses[0]: got \"x\"; expected " STATUS_WORDS},
        BadCase{R"({"server_errors": "RETRIES"})",
                "policy.server_errors: got \"RETRIES\"; expected one of RETRY, UNKNOWN, KEEP"},
        BadCase{R"({"server_errors": "UNKNOWN", "retryable_statuses": [429, 503]})",
                "policy.retryable_statuses: 503 is not allowed with policy.server_errors UNKNOWN; "
                "408, 499 and 5xx require policy.server_errors RETRY"},
        BadCase{R"({"server_errors": "KEEP", "released_statuses": ["5xx"]})",
                "policy.released_statuses: 500 is not allowed with policy.server_errors KEEP; 408, "
                "499 and 5xx require policy.server_errors RETRY"},
        BadCase{R"({"released_statuses": [429]})",
                "policy.released_statuses: 429 is also in policy.retryable_statuses"},
        BadCase{R"({"retryable_statuses": ["4xx"]})",
                "policy.released_statuses: 401 is also in policy.retryable_statuses"},

        BadCase{R"({"max_request_bytes": 67108865})",
                "policy.max_request_bytes: got 67108865; expected 0 to 67108864"},
        BadCase{R"({"max_request_bytes": "1MiB"})",
                "policy.max_request_bytes: got \"1MiB\"; expected a whole number of at least 0"},
        BadCase{R"({"max_request_bytes": -1})",
                "policy.max_request_bytes: got -1; expected a whole number of at least 0"},
        BadCase{R"({"max_request_bytes": 1e30})",
                "policy.max_request_bytes: got 1e+30; expected a whole number of at least 0"},
        BadCase{R"({"max_response_bytes": 67108865})",
                "policy.max_response_bytes: got 67108865; expected 0 to 67108864"},
        BadCase{R"({"store_response": "no"})",
                "policy.store_response: got \"no\"; expected true or false"},

        BadCase{R"({"unstored_headers": "x"})",
                "policy.unstored_headers: got a string; expected a list"},
        BadCase{R"({"unstored_headers": [5]})",
                "policy.unstored_headers[0]: got 5; expected a header name"},
        BadCase{R"({"unstored_headers": [""]})",
                "policy.unstored_headers[0]: must not be empty; expected a header name"},
        BadCase{R"({"unstored_headers": [":status"]})",
                "policy.unstored_headers[0]: \":status\" is a pseudo-header, which is not allowed"},
        BadCase{R"({"unstored_headers": ["x y"]})",
                "policy.unstored_headers[0]: got \"x y\"; expected " NAME_WORDS},
        BadCase{R"({"unstored_headers": ["Idempotent-Replayed"]})",
                "policy.unstored_headers[0]: \"Idempotent-Replayed\" is used by the filter itself; "
                "use another header"},
        BadCase{R"({"unstored_headers": ["x-a", "X-A"]})",
                "policy.unstored_headers[1]: duplicate name \"X-A\""},

        BadCase{R"({"docs_url": ""})", "policy.docs_url: got \"\"; expected " URL_WORDS},
        BadCase{R"({"docs_url": "/docs"})", "policy.docs_url: got \"/docs\"; expected " URL_WORDS},
        BadCase{R"({"docs_url": "ftp://a"})",
                "policy.docs_url: got \"ftp://a\"; expected " URL_WORDS},
        BadCase{R"({"docs_url": "https://"})",
                "policy.docs_url: got \"https://\"; expected " URL_WORDS},
        BadCase{R"({"docs_url": "https:///x"})",
                "policy.docs_url: got \"https:///x\"; expected " URL_WORDS},
        BadCase{R"({"docs_url": "https://a/#b"})",
                "policy.docs_url: got \"https://a/#b\"; expected " URL_WORDS},
        BadCase{R"({"docs_url": "https://a/>; rel=x"})",
                "policy.docs_url: got \"https://a/>; rel=x\"; expected " URL_WORDS},
        BadCase{R"({"docs_url": "https://a/\r\nx: y"})",
                "policy.docs_url: got \"https://a/\\x0d\\x0ax: y\"; expected " URL_WORDS}));

INSTANTIATE_TEST_SUITE_P(
    Messages, BadPolicyTest,
    testing::Values(
        BadCase{R"({"fingerprint": "RAW"})",
                "policy.fingerprint: got a string; expected an object"},
        BadCase{
            R"({"fingerprint": {"mode": "SHA"}})",
            "policy.fingerprint.mode: got \"SHA\"; expected one of CANONICAL, RAW, SELECTED, NONE"},
        BadCase{
            R"({"fingerprint": {"mode": "SELECTED"}})",
            "policy.fingerprint.pointers: required in mode SELECTED; list at least one pointer"},
        BadCase{R"({"fingerprint": {"pointers": ["/a"]}})",
                "policy.fingerprint.pointers: requires mode SELECTED"},
        BadCase{R"({"fingerprint": {"mode": "SELECTED", "pointers": ["a"]}})",
                "policy.fingerprint.pointers[0]: got \"a\"; expected a JSON Pointer (RFC 6901), "
                "such as \"/amount\""},
        BadCase{R"({"fingerprint": {"mode": "SELECTED", "pointers": ["/a", "/a"]}})",
                "policy.fingerprint.pointers[1]: duplicate pointer \"/a\""},
        BadCase{
            R"({"fingerprint": {"mode": "SELECTED", "pointers": ["/a"],
                                    "exclude_pointers": ["/b"]}})",
            "policy.fingerprint.exclude_pointers: requires mode CANONICAL"},
        BadCase{R"({"fingerprint": {"mode": "RAW", "exclude_pointers": ["/b"]}})",
                "policy.fingerprint.exclude_pointers: requires mode CANONICAL"},
        BadCase{R"({"fingerprint": {"exclude_pointers": ["#/b"]}})",
                "policy.fingerprint.exclude_pointers[0]: got \"#/b\"; expected a JSON Pointer (RFC "
                "6901), such as \"/amount\""},
        BadCase{R"({"fingerprint": {"mode": "NONE", "headers": ["x-a"]}})",
                "policy.fingerprint.headers: not allowed in mode NONE"},
        BadCase{R"({"fingerprint": {"mode": "NONE", "principal": {"fixed": "a"}}})",
                "policy.fingerprint.principal: not allowed in mode NONE"},
        BadCase{R"({"fingerprint": {"mode": "NONE", "authority": true}})",
                "policy.fingerprint.authority: not allowed in mode NONE"},
        BadCase{R"({"fingerprint": {"mode": "NONE", "query": "SORTED"}})",
                "policy.fingerprint.query: not allowed in mode NONE"},
        BadCase{R"({"fingerprint": {"query": "RAW"}})",
                "policy.fingerprint.query: got \"RAW\"; expected one of SORTED, AS_SENT"},
        BadCase{R"({"fingerprint": {"headers": ["x-a", "Host"]}})",
                "policy.fingerprint.headers[1]: \"Host\" is not compared as a header; see "
                "policy.fingerprint.authority"},
        BadCase{R"({"fingerprint": {"headers": [":authority"]}})",
                "policy.fingerprint.headers[0]: \":authority\" is a pseudo-header, which is not "
                "allowed | "
                "policy.fingerprint.headers[0]: \":authority\" is not compared as a header; see "
                "policy.fingerprint.authority"},
        BadCase{R"({"fingerprint": {"principal": {"header": "Host"}}})",
                "policy.fingerprint.principal.header: \"Host\" is chosen by the client; use a "
                "header that a trusted filter sets"},
        BadCase{
            R"({"fingerprint": {"headers": [":path"]}})",
            "policy.fingerprint.headers[0]: \":path\" is a pseudo-header, which is not allowed"},
        BadCase{R"({"fingerprint": {"headers": ["Idempotency-Key"]}})",
                "policy.fingerprint.headers[0]: \"Idempotency-Key\" is used by the filter itself; "
                "use another header"},
        BadCase{R"({"fingerprint": {"headers": ["X-Request-Id"]}})",
                "policy.fingerprint.headers[0]: \"X-Request-Id\" changes between retries; use a "
                "header that stays the same"},
        BadCase{R"({"fingerprint": {"principal": {}}})",
                "policy.fingerprint.principal: required; set one of header, metadata, "
                "peer_uri_san, fixed"},
        BadCase{R"({"fingerprint": {"principal": {"metadata": {"namespace": "n"}}}})",
                "policy.fingerprint.principal.metadata.key: must not be empty; expected 1 to 255 "
                "bytes of printable ASCII"},
        BadCase{R"({"fingerprint": {"principals": {}}})",
                "policy.fingerprint.principals: unknown field (did you mean "
                "policy.fingerprint.principal?); expected one of mode, headers, pointers, "
                "exclude_pointers, principal, authority, query"},

        BadCase{R"({"in_flight": {"action": "HOLD"}})",
                "policy.in_flight.action: got \"HOLD\"; expected one of REJECT, ACCEPTED, WAIT"},
        BadCase{R"({"in_flight": {"action": "WAIT"}})",
                "policy.in_flight.wait: required with action WAIT; set 0.001s to 60s"},
        BadCase{R"({"in_flight": {"wait": "1s"}})", "policy.in_flight.wait: requires action WAIT"},
        BadCase{R"({"in_flight": {"action": "ACCEPTED", "wait": "1s"}})",
                "policy.in_flight.wait: requires action WAIT"},
        BadCase{R"({"in_flight": {"action": "WAIT", "wait": "0s"}})",
                "policy.in_flight.wait: got 0s; expected 0.001s to 60s"},
        BadCase{R"({"in_flight": {"action": "WAIT", "wait": "60.001s"}})",
                "policy.in_flight.wait: got 60.001s; expected 0.001s to 60s"},
        BadCase{R"({"in_flight": {"retry_after": "0s"}})",
                "policy.in_flight.retry_after: got 0s; expected 1s to 3600s"},
        BadCase{R"({"in_flight": {"retry_after": "1.5s"}})",
                "policy.in_flight.retry_after: got 1.5s; expected whole seconds"},

        BadCase{R"({"detached": {"cluster": "c"}})",
                "policy.detached.cluster: unknown field; expected one of timeout, respond_async, "
                "max_wait"},
        BadCase{R"({"detached": {"timeout": "3600.001s"}})",
                "policy.detached.timeout: got 3600.001s; expected 0.001s to 3600s"},
        BadCase{R"({"detached": {"timeout": "0s"}})",
                "policy.detached.timeout: got 0s; expected 0.001s to 3600s"},
        BadCase{R"({"max_request_age": {"limit": "1s"}})",
                "policy.max_request_age.header: must not be empty; expected a header name"},
        BadCase{R"({"max_request_age": {"header": "date"}})",
                "policy.max_request_age.limit: required; set 1s to 2592000s"},
        BadCase{R"({"max_request_age": {"header": "date", "limit": "0.5s"}})",
                "policy.max_request_age.limit: got 0.5s; expected 1s to 2592000s"},

        BadCase{R"("REQUIRED")", "policy: got a string; expected an object"},
        BadCase{R"([])", "policy: got a list; expected an object"},
        BadCase{R"(null)", "policy: null is not allowed; omit the field"},
        BadCase{R"({"scope": "X", "flavor": "Y"})",
                "policy.scope: got \"X\"; expected one of TENANT_AND_OPERATION, TENANT | "
                "policy.flavor: got \"Y\"; expected one of IETF, STRIPE"}));

TEST(ConfigTest, UnknownPolicyFieldNamesTheKnownOnes) {
  const auto route = loadRouteConfig(R"({"policy": {"tll": "1s"}})");
  ASSERT_FALSE(route.ok());
  EXPECT_THAT(messageOf(route.status()),
              testing::StartsWith("policy.tll: unknown field (did you mean policy.ttl?); expected "
                                  "one of enforcement, methods, "));
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
#define STORE_MISSING "store: required; set { postgres: … } or { sqlite: … }"
#define SOURCES_MISSING                                                                      \
  "tenant.sources: required; list 1 to 8 sources, or [ { fixed: \"\" } ] for an API with a " \
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
        BadFilterCase{"[]", "config: got a list; expected a JSON object"},
        BadFilterCase{"7", "config: got a number; expected a JSON object"},
        BadFilterCase{
            WITH(R"("polcy": {})"),
            "polcy: unknown field (did you mean policy?); expected one of store, tenant, policy, "
            "replay_cache, limits, maintenance, encryption, reconcile, private_listener, "
            "status_resource"},
        BadFilterCase{WITH(R"("a b\n": {})"),
                      "\"a b\\x0a\": unknown field; expected one of store, tenant, policy, "
                      "replay_cache, limits, maintenance, encryption, reconcile, private_listener, "
                      "status_resource"}));

INSTANTIATE_TEST_SUITE_P(
    Store, BadFilterTest,
    testing::Values(
        BadFilterCase{"{" TENANT R"(, "store": "sqlite"})",
                      "store: got a string; expected an object"},
        BadFilterCase{"{" TENANT R"(, "store": {"sqlite": {"path": "/a"}, "postgres": {}}})",
                      "store: set either `postgres` or `sqlite`, not both"},
        BadFilterCase{"{" TENANT R"(, "store": {"redis": {}}})",
                      "store.redis: unknown field; expected one of postgres, sqlite"},
        BadFilterCase{POSTGRES(""),
                      "store.postgres.conninfo: required; set a libpq connection string"},
        // A number may be a secret too.
        BadFilterCase{POSTGRES(R"("conninfo": 31337)"),
                      "store.postgres.conninfo: got a number; expected a string"},
        BadFilterCase{POSTGRES(R"("conninfo": "host=a", "password_file": 31337)"),
                      "store.postgres.password_file: got a number; expected a string"},
        BadFilterCase{POSTGRES(R"("conninfo": "host=a", "connections": 0)"),
                      "store.postgres.connections: got 0; expected 1 to 64"},
        BadFilterCase{POSTGRES(R"("conninfo": "host=a", "connections": 65)"),
                      "store.postgres.connections: got 65; expected 1 to 64"},
        BadFilterCase{POSTGRES(R"("conninfo": "host=a", "timeout": "0s")"),
                      "store.postgres.timeout: got 0s; expected 0.01s to 60s"},
        BadFilterCase{POSTGRES(R"("conninfo": "host=a", "timeout": "61s")"),
                      "store.postgres.timeout: got 61s; expected 0.01s to 60s"},
        BadFilterCase{POSTGRES(R"("conninfo": "host=a", "password_file": "")"),
                      "store.postgres.password_file: must not be empty; expected an absolute "
                      "path of at most 4096 bytes"},
        BadFilterCase{"{" TENANT R"(, "store": {"sqlite": {}}})",
                      "store.sqlite.path: must not be empty; expected an absolute path of at "
                      "most 4096 bytes"},
        BadFilterCase{"{" TENANT R"(, "store": {"sqlite": {"path": "i.db"}}})",
                      "store.sqlite.path: got another value (not shown); expected an absolute path "
                      "of at most 4096 bytes"},
        BadFilterCase{"{" TENANT R"(, "store": {"sqlite": {"path": "/d", "timeout": "1ms"}}})",
                      "store.sqlite.timeout: got \"1ms\"; expected " DURATION_WORDS}));

INSTANTIATE_TEST_SUITE_P(
    Tenant, BadFilterTest,
    testing::Values(
        BadFilterCase{
            SOURCES("[]"),
            "tenant.sources: got an empty list; expected at least one entry (or omit the field)"},
        BadFilterCase{SOURCES(R"(["x-tenant"])"),
                      "tenant.sources[0]: got a string; expected an object"},
        BadFilterCase{
            SOURCES("[{}]"),
            "tenant.sources[0]: required; set one of header, metadata, peer_uri_san, fixed"},
        BadFilterCase{SOURCES(R"([{"header": ""}])"),
                      "tenant.sources[0].header: must not be empty; expected a header name"},
        BadFilterCase{SOURCES(R"([{"header": "idempotency-key"}])"),
                      "tenant.sources[0].header: \"idempotency-key\" is used by the filter itself; "
                      "use another header"},
        BadFilterCase{SOURCES(R"([{"header": "host"}])"),
                      "tenant.sources[0].header: \"host\" is chosen by the client; use a header "
                      "that a trusted filter sets"},
        BadFilterCase{SOURCES(R"([{"header": "a"}, {"header": ":authority"}])"),
                      "tenant.sources[1].header: \":authority\" is chosen by the client; use a "
                      "header that a trusted filter sets"},
        BadFilterCase{
            SOURCES(R"([{"header": "a", "fixed": "b"}])"),
            "tenant.sources[0]: set only one of `header`, `metadata`, `peer_uri_san`, `fixed`"},
        BadFilterCase{SOURCES(R"([{"header": "a"}, {"header": "A"}])"),
                      "tenant.sources[1]: duplicate source"},
        BadFilterCase{SOURCES(R"([{"fixed": "a"}, {"header": "b"}])"),
                      "tenant.sources[1]: never used, because it follows a fixed source; put the "
                      "fixed source last"},
        BadFilterCase{SOURCES(R"([{"metadata": {"key": "k"}}])"),
                      "tenant.sources[0].metadata.namespace: must not be empty; expected 1 to "
                      "255 bytes of printable ASCII"},
        BadFilterCase{SOURCES(R"([{"peer_uri_san": true}])"),
                      "tenant.sources[0].peer_uri_san: got a boolean; expected an object"},
        BadFilterCase{SOURCES(R"([{"fixed": "tab\there"}])"),
                      "tenant.sources[0].fixed: got \"tab\\x09here\"; expected 0 to 255 bytes of "
                      "printable ASCII"},
        BadFilterCase{SOURCES(R"([{"header":"a"},{"header":"b"},{"header":"c"},{"header":"d"},
                                  {"header":"e"},{"header":"f"},{"header":"g"},{"header":"h"},
                                  {"header":"i"}])"),
                      "tenant.sources (entries): got 9; expected 1 to 8"}));

INSTANTIATE_TEST_SUITE_P(
    Settings, BadFilterTest,
    testing::Values(
        BadFilterCase{WITH(R"("replay_cache": {"max_bytes": 17179869185})"),
                      "replay_cache.max_bytes: got 17179869185; expected 0 to 17179869184"},
        BadFilterCase{WITH(R"("replay_cache": {"max_age": "0s"})"),
                      "replay_cache.max_age: got 0s; expected 1s to 86400s"},
        BadFilterCase{WITH(R"("limits": {"in_flight": 0})"),
                      "limits.in_flight: got 0; expected 1 to 1000000"},
        BadFilterCase{WITH(R"("limits": {"queue_bytes": 1048575})"),
                      "limits.queue_bytes: got 1048575; expected 1048576 to 4294967296"},
        BadFilterCase{WITH(R"("limits": {"held_bytes": 1048575})"),
                      "limits.held_bytes: got 1048575; expected 1048576 to 68719476736"},
        BadFilterCase{WITH(R"("limits": {"tenant_in_flight": 0})"),
                      "limits.tenant_in_flight: got 0; expected 1 to 10000"},
        BadFilterCase{WITH(R"("limits": {"in_flight": 8, "tenant_in_flight": 9})"),
                      "limits.tenant_in_flight: got 9; expected 1 to 8"},
        BadFilterCase{WITH(R"("limits": {"tenant_in_flight": 8, "tenant_waiters": 9})"),
                      "limits.tenant_waiters: got 9; expected 1 to 8"},
        BadFilterCase{WITH(R"("limits": {"held_bytes": 1048576})"),
                      "policy.max_request_bytes: got 1048576; expected at most 786432, the limit "
                      "for the requests of one tenant (see limits.held_bytes)"},
        BadFilterCase{WITH(R"("limits": {"tenant_key_rate": 0})"),
                      "limits.tenant_key_rate: got 0; expected 1 to 1000000"},
        BadFilterCase{WITH(R"("limits": {"tenant_live_keys": 0})"),
                      "limits.tenant_live_keys: got 0; expected 1 to 1000000000"},
        BadFilterCase{WITH(R"("maintenance": {"sweep_interval": "0s"})"),
                      "maintenance.sweep_interval: got 0s; expected 1s to 3600s"},
        BadFilterCase{WITH(R"("maintenance": {"reap_interval": "86401s"})"),
                      "maintenance.reap_interval: got 86401s; expected 1s to 86400s"},
        BadFilterCase{WITH(R"("maintenance": {"soft_expire": 1})"),
                      "maintenance.soft_expire: got 1; expected true or false"},
        BadFilterCase{WITH(R"("encryption": {})"), "encryption.keys: required; list 1 to 16 keys"},
        BadFilterCase{WITH(R"("encryption": {"keys": [{"id": "a b", "file": "/k"}]})"),
                      "encryption.keys[0].id: got \"a b\"; expected 1 to 32 characters from A-Z "
                      "a-z 0-9 . _ -"},
        BadFilterCase{WITH(R"("encryption": {"keys": [{"file": "/k"}]})"),
                      "encryption.keys[0].id: must not be empty; expected 1 to 32 characters "
                      "from A-Z a-z 0-9 . _ -"},
        BadFilterCase{WITH(R"("encryption": {"keys": [{"id": "a", "file": "s3cret"}]})"),
                      "encryption.keys[0].file: got another value (not shown); expected an "
                      "absolute path of at most 4096 bytes"},
        BadFilterCase{WITH(R"("encryption": {"keys": [{"id": "a", "file": "/k"},
                                                      {"id": "a", "file": "/l"}]})"),
                      "encryption.keys[1].id: duplicate id \"a\""},
        BadFilterCase{WITH(R"("reconcile": [{}])"),
                      "reconcile[0].cluster: must not be empty; expected 1 to 255 bytes of "
                      "printable ASCII | reconcile[0].path: required; set a path that begins with "
                      "a slash, without fragment and space"},
        BadFilterCase{WITH(R"("reconcile": [{"cluster": "c", "path": "p"}])"),
                      "reconcile[0].path: got \"p\"; expected a path that begins with a slash, "
                      "without fragment and space"},
        BadFilterCase{WITH(R"("reconcile": [{"cluster": "c", "path": "/a#b"}])"),
                      "reconcile[0].path: got \"/a#b\"; expected a path that begins with a slash, "
                      "without fragment and space"},
        BadFilterCase{WITH(R"("reconcile": [{"cluster": "c", "path": "/{token}"}])"),
                      "reconcile[0].path: got \"/{token}\"; expected braces only around the "
                      "placeholders {tenant}, {operation}, {key}, {attempt}"},
        BadFilterCase{WITH(R"("reconcile": [{"cluster": "c", "path": "/", "method": "PUT"}])"),
                      "reconcile[0].method: got \"PUT\"; expected GET or POST"},
        BadFilterCase{
            WITH(
                R"("reconcile": [{"cluster": "c", "path": "/", "headers": [{"name": "Host", "value": "x"}]}])"),
            "reconcile[0].headers[0].name: \"Host\" is not set as a header; see authority"},
        BadFilterCase{
            WITH(
                R"("reconcile": [{"cluster": "c", "path": "/", "headers": [{"name": ":path", "value": "x"}]}])"),
            "reconcile[0].headers[0].name: got \":path\"; expected the name of a header that a "
            "request may have"},
        BadFilterCase{
            WITH(
                R"("reconcile": [{"cluster": "c", "path": "/", "headers": [{"name": "a", "value": "secret\nx: y"}]}])"),
            "reconcile[0].headers[0].value: got another value (not shown); expected at most 4096 "
            "bytes of printable ASCII"},
        BadFilterCase{
            WITH(
                R"("reconcile": [{"cluster": "c", "path": "/", "headers": [{"name": "a", "value": "secret {"}]}])"),
            "reconcile[0].headers[0].value: got another value (not shown); expected braces only "
            "around the placeholders {tenant}, {operation}, {key}, {attempt}"},
        BadFilterCase{WITH(R"("reconcile": [{"cluster": "c", "path": "/", "timeout": "61s"}])"),
                      "reconcile[0].timeout: got 61s; expected 0.01s to 60s"},
        BadFilterCase{WITH(R"("reconcile": [{"cluster": "c", "path": "/", "interval": "0.5s"}])"),
                      "reconcile[0].interval: got 0.5s; expected 1s to 3600s"},
        BadFilterCase{
            WITH(R"("reconcile": [{"cluster": "c", "path": "/", "max_interval": "86401s"}])"),
            "reconcile[0].max_interval: got 86401s; expected 1s to 86400s"},
        BadFilterCase{
            WITH(
                R"("reconcile": [{"cluster": "c", "path": "/", "interval": "20s", "max_interval": "10s"}])"),
            "reconcile[0].interval: got 20s; expected at most max_interval (10s)"},
        BadFilterCase{WITH(R"("reconcile": [{"cluster": "c", "path": "/", "max_tries": 0}])"),
                      "reconcile[0].max_tries: got 0; expected 1 to 1000"},
        BadFilterCase{WITH(R"("reconcile": [{"cluster": "c", "path": "/", "max_parallel": 101}])"),
                      "reconcile[0].max_parallel: got 101; expected 1 to 100"},
        BadFilterCase{
            WITH(
                R"("reconcile": [{"cluster": "c", "path": "/", "absent_is_final": true, "absent_final_after": "60s"}])"),
            "reconcile[0].absent_final_after: cannot be combined with absent_is_final"},
        BadFilterCase{
            WITH(R"("reconcile": [{"cluster": "c", "path": "/", "absent_final_after": "0.5s"}])"),
            "reconcile[0].absent_final_after: got 0.5s; expected 1s to 604800s"},
        BadFilterCase{
            WITH(
                R"("reconcile": [{"cluster": "c", "path": "/", "response": {"body_pointer": "body"}}])"),
            "reconcile[0].response.body_pointer: got \"body\"; expected a JSON Pointer (RFC 6901), "
            "such as \"/status\""},
        BadFilterCase{
            WITH(R"("reconcile": [{"cluster": "c", "path": "/", "max_response_bytes": 67108865}])"),
            "reconcile[0].max_response_bytes: got 67108865; expected 0 to 67108864"},
        BadFilterCase{
            WITH(R"("reconcile": [{"cluster": "c", "path": "/", "operations": ["a", "a"]}])"),
            "reconcile[0].operations[1]: \"a\" is in reconcile[0].operations[0] already"},
        BadFilterCase{
            WITH(
                R"("reconcile": [{"cluster": "c", "path": "/", "operations": ["a"]}, {"cluster": "c", "path": "/", "operations": ["a"]}])"),
            "reconcile[1].operations[0]: \"a\" is in reconcile[0].operations[0] already"},
        BadFilterCase{
            WITH(R"("reconcile": [{"cluster": "c", "path": "/"}, {"cluster": "c", "path": "/"}])"),
            "reconcile[1]: reconcile[0] covers all other operations already; name the operations"},
        BadFilterCase{WITH(R"("private_listener": {})"),
                      "private_listener.path: got \"\"; expected an absolute path of at most 107 "
                      "bytes"},
        BadFilterCase{WITH(R"("private_listener": {"path": "runs.sock"})"),
                      "private_listener.path: got \"runs.sock\"; expected an absolute path of at "
                      "most 107 bytes"},
        BadFilterCase{WITH(R"("private_listener": {"path": "/s", "accept_timeout": "0.009s"})"),
                      "private_listener.accept_timeout: got 0.009s; expected 0.01s to 60s"},
        BadFilterCase{WITH(R"("private_listener": {"path": "/s", "accept_timeout": "60.001s"})"),
                      "private_listener.accept_timeout: got 60.001s; expected 0.01s to 60s"},
        BadFilterCase{WITH(R"("private_listener": {"path": "/s", "max_runs": 0})"),
                      "private_listener.max_runs: got 0; expected 1 to 1000000"},
        BadFilterCase{WITH(R"("private_listener": {"path": "/s", "max_runs": 1000001})"),
                      "private_listener.max_runs: got 1000001; expected 1 to 1000000"},
        BadFilterCase{WITH(R"("policy": {"detached": {}})"),
                      "policy.detached: requires private_listener in the filter's config"}));

TEST(ConfigTest, RouteWithoutPolicyIsRefused) {
  for (const std::string_view json : {"", "{}"}) {
    const auto route = loadRouteConfig(json);
    ASSERT_FALSE(route.ok());
    EXPECT_EQ(messageOf(route.status()),
              "policy: required; set the route's policy, such as { enforcement: REQUIRED }");
  }
}

TEST(ConfigTest, FieldOnTheWrongLevelIsShownItsPlace) {
  const auto route = loadRouteConfig(R"({"policy": {}, "minKeyLength": 20})");
  EXPECT_EQ(messageOf(route.status()),
            "minKeyLength: unknown field (did you mean policy.min_key_length?); expected one of "
            "policy");
  const auto store = [](std::string_view field) {
    return messageOf(
        loadFilterConfig(fmt::format(R"({{{}, "store": {{"{}": 1}}}})", Tenant, field)).status());
  };
  EXPECT_EQ(store("conninfo"),
            "store.conninfo: unknown field (did you mean store.postgres.conninfo?); expected one "
            "of postgres, sqlite");
  // Both have it.
  EXPECT_EQ(store("timeout"), "store.timeout: unknown field; expected one of postgres, sqlite");
}

TEST(ConfigTest, ErrorsOfARouteNameItsOperation) {
  EXPECT_EQ(
      messageOf(loadRouteConfig(routeJson(R"({"operation": "charge", "ttl": "0s"})")).status()),
      "operation \"charge\": policy.ttl: got 0s; expected 1s to 2592000s");
  // Also if the JSON itself is wrong after it.
  EXPECT_EQ(messageOf(loadRouteConfig(routeJson(R"({"operation": "charge", "ttl": 5})")).status()),
            "operation \"charge\": policy.ttl: got 5; expected " DURATION_WORDS);
  const FilterConfig filter = mustLoadFilter(filterJson(R"("policy": {"lease": "120s"})"));
  const RouteConfig route = mustLoadRoute(R"({"operation": "charge", "ttl": "60s"})");
  EXPECT_EQ(messageOf(resolvePolicy(filter, &route).status()),
            "operation \"charge\": policy.ttl: got 60s; expected at least policy.lease (120s)");
}

TEST(ConfigTest, RouteTakesNoFieldOfTheFilter) {
  const auto route = loadRouteConfig(R"({"policy": {}, "store": {}})");
  ASSERT_FALSE(route.ok());
  EXPECT_EQ(messageOf(route.status()), "store: unknown field; expected one of policy");
}

// A path is a socket's, which the kernel limits.
TEST(ConfigTest, PathOfThePrivateListenerIsOneThatASocketCanHave) {
  const auto load = [](const std::string& path) {
    return loadFilterConfig(
        filterJson(fmt::format(R"("private_listener": {{"path": "{}"}})", path)));
  };
  const std::string longest = "/" + std::string(106, 'x');
  const auto accepted = load(longest);
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_EQ(accepted->private_listener->path, longest);
  EXPECT_FALSE(load(longest + "x").ok());
  EXPECT_FALSE(load("/a\\u0000b").ok());
}

// --- Own transactions

constexpr std::string_view NoSqlite =
    "policy.own_transaction: requires store.postgres: a service cannot commit to a SQLite store in "
    "its own transaction";

TEST(ConfigTest, OwnTransactionsNeedPostgres) {
  const auto filter = loadFilterConfig(filterJson(R"("policy": {"own_transaction": true})"));
  ASSERT_FALSE(filter.ok());
  EXPECT_EQ(messageOf(filter.status()), NoSqlite);

  const FilterConfig plain = mustLoadFilter(filterJson(""));
  const RouteConfig route =
      mustLoadRoute(R"({"own_transaction": true, "operation": "charge"})");
  const auto policy = resolvePolicy(plain, &route);
  ASSERT_FALSE(policy.ok());
  EXPECT_EQ(messageOf(policy.status()), fmt::format("operation \"charge\": {}", NoSqlite));

  const RouteConfig off = mustLoadRoute(R"({"own_transaction": false})");
  EXPECT_TRUE(resolvePolicy(plain, &off).ok());
}

TEST(ConfigTest, OwnTransactionsFallBackToTheFilter) {
  const auto load = [](std::string_view policy) {
    return mustLoadFilter(fmt::format(
        R"({{"store": {{"postgres": {{"conninfo": "host=db"}}}}, {}, "policy": {}}})", Tenant,
        policy));
  };
  const RouteConfig silent = mustLoadRoute("{}");
  const RouteConfig on = mustLoadRoute(R"({"own_transaction": true})");
  const RouteConfig off = mustLoadRoute(R"({"own_transaction": false})");
  EXPECT_FALSE(resolvePolicy(load("{}"), &silent)->own_transaction);
  EXPECT_TRUE(resolvePolicy(load("{}"), &on)->own_transaction);
  const FilterConfig filter = load(R"({"own_transaction": true})");
  EXPECT_TRUE(resolvePolicy(filter, &silent)->own_transaction);
  EXPECT_FALSE(resolvePolicy(filter, &off)->own_transaction);
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
                "policy.min_key_length: got 60; expected at most policy.max_key_length (50)"},
           Case{R"({"lease": "120s"})", R"({"ttl": "60s"})",
                "policy.ttl: got 60s; expected at least policy.lease (120s)"},
           Case{R"({"completion_timeout": "20s"})", R"({"lease": "10s"})",
                "policy.completion_timeout: got 20s; expected at most policy.lease (10s)"},
           Case{R"({"released_statuses": [404]})", R"({"retryable_statuses": [404]})",
                "policy.released_statuses: 404 is also in policy.retryable_statuses"},
           Case{R"({"max_key_length": 30})", R"({"uuid_only": true})",
                "policy.uuid_only: a UUID has 36 characters, but keys of 16 to 30 are allowed"},
           Case{"{}", R"({"detached": {}})",
                "policy.detached: requires private_listener in the filter's config"},
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
            "config: got 5242880 bytes; expected at most 4194304 bytes of JSON");
}

TEST(ConfigTest, DeepConfigIsRefused) {
  const auto filter = loadFilterConfig(std::string(100, '[') + std::string(100, ']'));
  ASSERT_FALSE(filter.ok());
  EXPECT_THAT(messageOf(filter.status()), testing::StartsWith("config: not valid JSON"));
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
}  // namespace idempotency::config
