#include "source/filter/stream/name_reader.h"

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "test/envoy/scripted_module.h"
#include "test/support/fake_envoy.h"

namespace idempotency::filter {
namespace {

using envoy::Attribute;

class NameReaderTest : public ::testing::Test {
protected:
  // Reads inside the request-headers hook, after `prepare` has set up the stream.
  std::optional<std::string> read(const std::vector<protocol::NameSource>& sources,
                                  fake::FieldList headers,
                                  const std::function<void(fake::Stream&)>& prepare = {}) {
    fake::resetProcess();
    test::script() = test::Script();
    std::optional<std::string> name;
    test::script().request_headers = [&](test::ScriptedFilter& filter, bool) {
      const envoy::HeaderLines lines(filter.stream().requestHeaders());
      name = readName(filter.stream(), lines, sources);
      return envoy::HeadersAction::Continue;
    };
    fake::Config config("test", "");
    fake::Stream stream(config);
    if (prepare) {
      prepare(stream);
    }
    stream.requestHeaders(std::move(headers), true);
    return name;
  }
};

const protocol::HeaderSource Tenant{"x-tenant"};

TEST_F(NameReaderTest, HeaderGivesItsValue) {
  EXPECT_EQ(read({Tenant}, {{"x-tenant", "acme"}}), "acme");
}

TEST_F(NameReaderTest, AbsentOrEmptyHeaderGivesNone) {
  EXPECT_EQ(read({Tenant}, {}), std::nullopt);
  EXPECT_EQ(read({Tenant}, {{"x-tenant", ""}}), std::nullopt);
}

TEST_F(NameReaderTest, TwoHeaderLinesGiveNoneEvenWithSourcesToFollow) {
  EXPECT_EQ(read({Tenant, protocol::FixedSource{"other"}}, {{"x-tenant", "a"}, {"x-tenant", "b"}}),
            std::nullopt);
}

// Which proxies make of two lines, as RFC 9110 allows.
TEST_F(NameReaderTest, JoinedHeaderLinesGiveNoneEvenWithSourcesToFollow) {
  for (const char* joined : {"a,b", "a, b", "a,", ",a", ","}) {
    EXPECT_EQ(read({Tenant, protocol::FixedSource{"other"}}, {{"x-tenant", joined}}), std::nullopt)
        << joined;
  }
}

TEST_F(NameReaderTest, OnlyHeadersAreJoined) {
  EXPECT_EQ(read({protocol::FixedSource{"a, b"}}, {}), "a, b");
  EXPECT_EQ(read({protocol::MetadataSource{"my.auth", "tenant"}}, {},
                 [](fake::Stream& s) { s.given_metadata["0:my.auth:tenant"] = "a, b"; }),
            "a, b");
}

TEST_F(NameReaderTest, FirstSourceThatHasANameWins) {
  const std::vector<protocol::NameSource> sources = {Tenant, protocol::HeaderSource{"x-other"},
                                                     protocol::FixedSource{"last"}};
  EXPECT_EQ(read(sources, {{"x-tenant", "1"}, {"x-other", "2"}}), "1");
  EXPECT_EQ(read(sources, {{"x-other", "2"}}), "2");
  EXPECT_EQ(read(sources, {}), "last");
}

TEST_F(NameReaderTest, FixedNameMayBeEmpty) {
  EXPECT_EQ(read({protocol::FixedSource{""}}, {}), "");
}

TEST_F(NameReaderTest, MetadataIsReadFromDynamicMetadataOnly) {
  const std::vector<protocol::NameSource> sources = {protocol::MetadataSource{"my.auth", "tenant"}};
  EXPECT_EQ(
      read(sources, {}, [](fake::Stream& s) { s.given_metadata["0:my.auth:tenant"] = "acme"; }),
      "acme");
  EXPECT_EQ(
      read(sources, {}, [](fake::Stream& s) { s.given_metadata["1:my.auth:tenant"] = "acme"; }),
      std::nullopt);
}

TEST_F(NameReaderTest, MetadataMayBeANumberOrABool) {
  const std::vector<protocol::NameSource> sources = {protocol::MetadataSource{"my.auth", "tenant"}};
  const auto name = [&](double number) {
    return read(sources, {},
                [number](fake::Stream& s) { s.given_numbers["0:my.auth:tenant"] = number; });
  };
  EXPECT_EQ(name(7), "7");
  EXPECT_EQ(name(-7), "-7");
  EXPECT_EQ(name(0), "0");
  EXPECT_EQ(name(1234567890123), "1234567890123");
  EXPECT_EQ(name(9007199254740991), "9007199254740991");
  EXPECT_EQ(name(0.1), "0.1");
  EXPECT_NE(name(0.1 + 0.2), name(0.3));
  const auto flag = [](fake::Stream& s) { s.given_flags["0:my.auth:tenant"] = true; };
  EXPECT_EQ(read(sources, {}, flag), "true");
}

TEST_F(NameReaderTest, NumberThatMayStandForTwoGivesNoneEvenWithSourcesToFollow) {
  const std::vector<protocol::NameSource> sources = {protocol::MetadataSource{"my.auth", "tenant"},
                                                     protocol::FixedSource{"other"}};
  for (const double number :
       {9007199254740992.0, -9007199254740992.0, 1e300, double{NAN}, double{INFINITY}}) {
    EXPECT_EQ(read(sources, {},
                   [number](fake::Stream& s) { s.given_numbers["0:my.auth:tenant"] = number; }),
              std::nullopt)
        << number;
  }
}

TEST_F(NameReaderTest, PeerCountsOnlyUnderMutualTls) {
  const std::vector<protocol::NameSource> sources = {protocol::PeerUriSanSource{}};
  const auto peer = [](bool mtls) {
    return [mtls](fake::Stream& s) {
      s.texts[Attribute::PeerUriSan] = "spiffe://example/ns/a";
      s.flags[Attribute::ConnectionMtls] = mtls;
    };
  };
  EXPECT_EQ(read(sources, {}, peer(true)), "spiffe://example/ns/a");
  EXPECT_EQ(read(sources, {}, peer(false)), std::nullopt);
  EXPECT_EQ(read(sources, {}), std::nullopt);
}

}  // namespace
}  // namespace idempotency::filter
