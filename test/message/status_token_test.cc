#include "source/message/status_token.h"

#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace idempotency::message {
namespace {

const protocol::Identity Who{"acme", "create-payment", "8e03978e-40d5-43dd-bc93-6894a57f9324"};

StatusTokens tokens(const std::string& secret = "sixteen bytes ok") {
  return StatusTokens::create(secret).value();
}

TEST(StatusTokenTest, OpensForItsTenantWithItsSecret) {
  const std::string token = tokens().seal(Who);
  EXPECT_EQ(tokens().open(token, "acme"), Who);
  EXPECT_EQ(tokens().open(token, "bolt"), std::nullopt);
  EXPECT_EQ(tokens().open(token, ""), std::nullopt);
  EXPECT_EQ(tokens("another secret 16").open(token, "acme"), std::nullopt);
}

TEST(StatusTokenTest, EveryIdentityComesBack) {
  const std::vector<protocol::Identity> identities = {
      {"", "", "k"},
      {"", "op", "k"},
      {"acme", "", std::string(255, 'k')},
      {std::string(255, 't'), std::string(255, 'o'), std::string(255, 'k')},
      {"acme", std::string("a\0b", 3), std::string("\xff\0", 2)},
  };
  for (const protocol::Identity& identity : identities) {
    EXPECT_EQ(tokens().open(tokens().seal(identity), identity.tenant), identity);
  }
}

TEST(StatusTokenTest, IsTheSameEachTimeAndDiffersForEveryIdentity) {
  EXPECT_EQ(tokens().seal(Who), tokens().seal(Who));
  EXPECT_NE(tokens().seal(Who), tokens().seal({"bolt", Who.operation, Who.key}));
  EXPECT_NE(tokens().seal({"t", "ab", "c"}), tokens().seal({"t", "a", "bc"}));
  EXPECT_NE(tokens().seal({"t", "a", "b"}), tokens().seal({"ta", "", "b"}));
}

TEST(StatusTokenTest, NothingElseOpens) {
  const std::string token = tokens().seal(Who);
  for (size_t i = 0; i < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == '0' ? '1' : '0';
    EXPECT_EQ(tokens().open(changed, "acme"), std::nullopt) << i;
    EXPECT_EQ(tokens().open(token.substr(0, i), "acme"), std::nullopt) << i;
  }
  for (const std::string& strange :
       {token + "0", token + "00", "0" + token, std::string("zz") + token.substr(2), token + token,
        std::string(8192, '0'), std::string(" ") + token}) {
    EXPECT_EQ(tokens().open(strange, "acme"), std::nullopt);
  }
}

TEST(StatusTokenTest, ShowsNeitherKeyNorOperation) {
  const std::string token = tokens().seal({"acme", "aaaa", "aaaaaaaaaaaaaaaa"});
  EXPECT_EQ(token.find("61616161"), std::string::npos);
  EXPECT_EQ(token.find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST(StatusTokenTest, SecretHasALeastLength) {
  EXPECT_FALSE(StatusTokens::create("fifteen bytes..").has_value());
  EXPECT_FALSE(StatusTokens::create("").has_value());
  EXPECT_TRUE(StatusTokens::create("sixteen bytes ok").has_value());
}

}  // namespace
}  // namespace idempotency::message
