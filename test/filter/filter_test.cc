// The module as Envoy sees it, in a fake Envoy: configs, routes, refusals, what passes. The life of
// a covered request is in stream_filter_test.cc.
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "test/support/fake_envoy.h"

namespace idempotency::filter {
namespace {

using envoy::raw::Attribute;
using envoy::raw::HeadersAction;
using envoy::raw::LogLevel;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr char FilterJson[] = R"({
  "store": {"sqlite": {"path": "/tmp/never-opened.db"}},
  "tenant": {"sources": [{"header": "x-tenant-id"}]}
})";

class FilterTest : public ::testing::Test {
protected:
  FilterTest() { fake::resetProcess(); }

  fake::Config& config() {
    if (config_ == nullptr) {
      config_ = std::make_unique<fake::Config>("idempotency", FilterJson);
      EXPECT_TRUE(config_->loaded());
    }
    return *config_;
  }

  // A request with a good key and tenant, with these headers in place of the usual ones; empty
  // takes one out.
  static fake::FieldList request(const fake::FieldList& changes = {}) {
    fake::FieldList headers = {{":method", "POST"},
                               {":path", "/payments"},
                               {"x-tenant-id", "acme"},
                               {"idempotency-key", "\"0123456789abcdef\""}};
    for (const auto& [name, value] : changes) {
      std::erase_if(headers, [&name = name](const auto& field) { return field.first == name; });
      if (!value.empty()) {
        headers.emplace_back(name, value);
      }
    }
    return headers;
  }

  const fake::Route required_{"idempotency",
                              R"({"policy": {"enforcement": "REQUIRED", "operation": "pay"}})"};

private:
  std::unique_ptr<fake::Config> config_;
};

TEST_F(FilterTest, RouteWithoutConfigPassesUntouchedAndIsCountedByItsName) {
  for (const char* name : {"orders", ""}) {
    fake::Stream stream(config());
    stream.texts[Attribute::RouteName] = name;
    // Neither key nor tenant are looked at.
    EXPECT_EQ(stream.requestHeaders({{":method", "POST"}, {"idempotency-key", "bad"}}, true),
              HeadersAction::Continue);
    EXPECT_TRUE(stream.metadata.empty());
  }
  EXPECT_EQ(config().counter("unprotected.route.orders"), 1u);
  EXPECT_EQ(config().counter("unprotected.route.unnamed"), 1u);
  EXPECT_EQ(config().counter("covered"), 0u);
}

// --- Many events of one label, which are told together

class BusyRouteTest : public FilterTest {
protected:
  static constexpr uint64_t Requests = 130;

  static void send(fake::Config& config) {
    for (uint64_t i = 0; i < Requests; ++i) {
      fake::Stream stream(config);
      stream.texts[Attribute::RouteName] = "busy";
      stream.requestHeaders({{":method", "POST"}}, true);
    }
  }
  static uint64_t counted(const fake::Config& config) {
    return config.counter("unprotected.route.busy");
  }
  // The main thread goes on until so many are counted, or for long enough.
  static uint64_t countedInTheEnd(fake::Config& config, uint64_t wanted) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (counted(config) < wanted && std::chrono::steady_clock::now() < end) {
      config.runScheduled();
      std::this_thread::yield();
    }
    return counted(config);
  }
};

TEST_F(BusyRouteTest, EventsAreToldTogetherByTheMainThread) {
  send(config());
  EXPECT_LT(counted(config()), Requests) << "each by itself";
  EXPECT_GT(counted(config()), 0U) << "the first ones at once";
  EXPECT_EQ(countedInTheEnd(config(), Requests), Requests);
}

TEST_F(BusyRouteTest, LastConfigTellsWhatIsKept) {
  send(config());
  config().end();
  EXPECT_EQ(counted(config()), Requests);
}

TEST_F(BusyRouteTest, AnotherConfigTellsWhatAConfigThatWentHasKept) {
  send(config());
  fake::Config other("idempotency", FilterJson);
  config().end();
  const uint64_t told = counted(config());
  ASSERT_LT(told, Requests);
  EXPECT_EQ(countedInTheEnd(other, Requests - told), Requests - told);
}

TEST_F(FilterTest, OtherMethodsNeedNoKeyAndAreNotCounted) {
  for (const char* method : {"GET", "PUT", "DELETE"}) {
    fake::Stream stream(config(), &required_);
    EXPECT_EQ(stream.requestHeaders({{":method", method}}, true), HeadersAction::Continue);
  }
  EXPECT_EQ(config().counter("covered"), 0u);
  EXPECT_EQ(config().counter("unprotected.route.unnamed"), 0u);
}

struct RefusalCase {
  const char* name;
  fake::FieldList changes;
  uint32_t status;
  const char* code;
  const char* counter;
};

class RefusalTest : public FilterTest, public ::testing::WithParamInterface<RefusalCase> {};

TEST_P(RefusalTest, IsAnsweredCountedAndNeverPassed) {
  fake::Stream stream(config(), &required_);
  EXPECT_EQ(stream.requestHeaders(request(GetParam().changes), true), HeadersAction::StopIteration);
  ASSERT_TRUE(stream.reply.has_value());
  EXPECT_EQ(stream.reply->code, GetParam().status);
  EXPECT_EQ(stream.reply->details, GetParam().code);
  EXPECT_THAT(stream.reply->headers, Contains(Pair("content-type", "application/problem+json")));
  EXPECT_THAT(stream.reply->body, HasSubstr(GetParam().code));
  EXPECT_EQ(stream.metadata["envoy-idempotency:outcome"], GetParam().code);
  EXPECT_EQ(config().counter(GetParam().counter), 1u);
  EXPECT_EQ(config().counter("covered"), 0u);
}

INSTANTIATE_TEST_SUITE_P(Rows, RefusalTest,
                         ::testing::Values(RefusalCase{"NoKey",
                                                       {{"idempotency-key", ""}},
                                                       400,
                                                       "idempotency_key_missing",
                                                       "key_missing"},
                                           RefusalCase{"BareKey",
                                                       {{"idempotency-key", "0123456789abcdef"}},
                                                       400,
                                                       "idempotency_key_invalid",
                                                       "key_invalid"},
                                           RefusalCase{"ShortKey",
                                                       {{"idempotency-key", "\"short\""}},
                                                       400,
                                                       "idempotency_key_invalid",
                                                       "key_invalid"},
                                           RefusalCase{"NoTenant",
                                                       {{"x-tenant-id", ""}},
                                                       403,
                                                       "idempotency_tenant_missing",
                                                       "tenant_missing"}),
                         [](const auto& info) { return info.param.name; });

TEST_F(FilterTest, TwoKeyLinesAreRefused) {
  fake::FieldList headers = request();
  headers.emplace_back("idempotency-key", "\"0123456789abcdef\"");
  fake::Stream stream(config(), &required_);
  stream.requestHeaders(headers, true);
  ASSERT_TRUE(stream.reply.has_value());
  EXPECT_EQ(stream.reply->details, "idempotency_key_invalid");
}

TEST_F(FilterTest, GrpcRequestIsRefusedWithAGrpcStatus) {
  fake::Stream stream(config(), &required_);
  stream.requestHeaders(
      request({{"idempotency-key", ""}, {"content-type", "application/grpc+proto"}}), false);
  ASSERT_TRUE(stream.reply.has_value());
  EXPECT_THAT(stream.reply->headers, Contains(Pair("grpc-status", ::testing::Ne("0"))));
}

TEST_F(FilterTest, RouteThatContradictsTheFilterRefusesItsRequests) {
  fake::Config config("idempotency", R"({
    "store": {"sqlite": {"path": "/tmp/never-opened.db"}},
    "tenant": {"sources": [{"fixed": ""}]},
    "policy": {"max_key_length": 20}
  })");
  ASSERT_TRUE(config.loaded());
  const fake::Route route("idempotency",
                          R"({"policy": {"enforcement": "REQUIRED", "min_key_length": 30}})");
  ASSERT_TRUE(route.loaded()) << "fine by itself";
  fake::Stream stream(config, &route);
  EXPECT_EQ(stream.requestHeaders(request(), true), HeadersAction::StopIteration);
  ASSERT_TRUE(stream.reply.has_value());
  EXPECT_EQ(stream.reply->code, 500u);
  EXPECT_EQ(config.counter("config_invalid"), 1u);
  EXPECT_TRUE(fake::process().logged(LogLevel::Error, "min_key_length"));
}

TEST_F(FilterTest, PolicyOfTheFilterHoldsWhereTheRouteSaysNothing) {
  fake::Config config("idempotency", R"({
    "store": {"sqlite": {"path": "/tmp/never-opened.db"}},
    "tenant": {"sources": [{"fixed": ""}]},
    "policy": {"enforcement": "REQUIRED"}
  })");
  fake::Stream without_route(config);
  without_route.requestHeaders({{":method", "POST"}}, true);
  ASSERT_TRUE(without_route.reply.has_value());
  EXPECT_EQ(without_route.reply->details, "idempotency_key_missing");

  const fake::Route off("idempotency", R"({"policy": {"enforcement": "OFF"}})");
  fake::Stream with_route(config, &off);
  EXPECT_EQ(with_route.requestHeaders({{":method", "POST"}}, true), HeadersAction::Continue);
}

struct BadConfig {
  const char* name;
  const char* json;
  const char* field;
};

class BadFilterConfigTest : public FilterTest, public ::testing::WithParamInterface<BadConfig> {};

TEST_P(BadFilterConfigTest, IsRefusedAndTheLogNamesTheField) {
  EXPECT_FALSE(fake::Config("idempotency", GetParam().json).loaded());
  EXPECT_TRUE(fake::process().logged(LogLevel::Error, GetParam().field));
}

INSTANTIATE_TEST_SUITE_P(
    Rows, BadFilterConfigTest,
    ::testing::Values(BadConfig{"NoJson", "{", "filter config rejected"},
                      BadConfig{"UnknownField", R"({"stroe": {}})", "stroe"},
                      BadConfig{"NoStore", R"({"tenant": {"sources": [{"fixed": ""}]}})", "store"},
                      BadConfig{"NoTenant", R"({"store": {"sqlite": {"path": "/x"}}})", "tenant"}),
    [](const auto& info) { return info.param.name; });

TEST_F(FilterTest, OtherFilterNamesAreRefused) {
  EXPECT_FALSE(fake::Config("other", FilterJson).loaded());
  EXPECT_TRUE(fake::process().logged(LogLevel::Error, "filter_name is \"other\""));
  EXPECT_FALSE(fake::Route("other", "{}").loaded());
}

TEST_F(FilterTest, BadRouteConfigIsRefusedAndTheLogNamesTheField) {
  EXPECT_FALSE(fake::Route("idempotency", R"({"policy": {"min_key_length": 0}})").loaded());
  EXPECT_TRUE(fake::process().logged(LogLevel::Error, "policy.min_key_length"));
}

}  // namespace
}  // namespace idempotency::filter
