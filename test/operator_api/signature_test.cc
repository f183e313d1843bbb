#include "source/operator_api/signature.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace idempotency::operator_api {
namespace {

using protocol::WebhookFormat;

constexpr std::string_view Body = R"({"attempt": "5"})";
constexpr std::chrono::seconds Now{1'790'000'000};
const std::vector<WebhookKey> Keys = {{"old", "an old secret of some length"},
                                      {"new", "0123456789abcdef"}};

SignatureVerdict verdict(WebhookFormat format, const SignatureHeaders& headers,
                         std::string_view body = Body, std::chrono::seconds now = Now) {
  return verifySignature(format, headers, body, Keys, {now, std::chrono::minutes(5)}).verdict;
}

// printf '1790000000.{"attempt": "5"}' | openssl dgst -sha256 -hmac 0123456789abcdef
const std::string Signature = "a26d732e770031f9a32998dcacdc013c83ee6e76b64eee4baf0c1877bc8fe957";
const SignatureHeaders Generic{"", "1790000000", Signature};

TEST(SignatureTest, ASignatureOfAnyKeyIsAcceptedAndNamesTheKey) {
  const auto result =
      verifySignature(WebhookFormat::Generic, Generic, Body, Keys, {Now, std::chrono::minutes(5)});
  EXPECT_EQ(result.verdict, SignatureVerdict::Valid);
  EXPECT_EQ(result.key_id, "new");
}

TEST(SignatureTest, EveryBitOfBodyTimestampAndSignatureCounts) {
  for (size_t i = 0; i < Body.size(); ++i) {
    std::string changed(Body);
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_EQ(verdict(WebhookFormat::Generic, Generic, changed), SignatureVerdict::Invalid) << i;
  }
  for (size_t i = 0; i < Signature.size(); ++i) {
    std::string changed = Signature;
    changed[i] = changed[i] == '0' ? '1' : '0';
    EXPECT_EQ(verdict(WebhookFormat::Generic, {"", "1790000000", changed}),
              SignatureVerdict::Invalid);
  }
  EXPECT_EQ(verdict(WebhookFormat::Generic, {"", "1790000001", Signature}),
            SignatureVerdict::Invalid);
  EXPECT_EQ(verdict(WebhookFormat::Generic, {"", "1790000000", Signature.substr(0, 32)}),
            SignatureVerdict::Invalid);
}

TEST(SignatureTest, WithoutKeysNothingIsAccepted) {
  EXPECT_EQ(
      verifySignature(WebhookFormat::Generic, Generic, Body, {}, {Now, std::chrono::minutes(5)})
          .verdict,
      SignatureVerdict::Invalid);
}

TEST(SignatureTest, ATimestampMustBeNear) {
  for (const int distance : {-300, -1, 0, 1, 300}) {
    EXPECT_EQ(verdict(WebhookFormat::Generic, Generic, Body, Now + std::chrono::seconds(distance)),
              SignatureVerdict::Valid)
        << distance;
  }
  for (const int distance : {-301, 301, 1'000'000}) {
    EXPECT_EQ(verdict(WebhookFormat::Generic, Generic, Body, Now + std::chrono::seconds(distance)),
              SignatureVerdict::Late)
        << distance;
  }
}

TEST(SignatureTest, AForgerLearnsNothingAboutTheWindow) {
  EXPECT_EQ(verdict(WebhookFormat::Generic, {"", "1", Signature}), SignatureVerdict::Invalid);
}

TEST(SignatureTest, WhatCannotBeReadIsMissing) {
  for (const SignatureHeaders& headers :
       {SignatureHeaders{}, SignatureHeaders{"", "1790000000", ""},
        SignatureHeaders{"", "", Signature}, SignatureHeaders{"", "soon", Signature},
        SignatureHeaders{"", "99999999999999999999", Signature}}) {
    EXPECT_EQ(verdict(WebhookFormat::Generic, headers), SignatureVerdict::Missing);
  }
  EXPECT_EQ(verdict(WebhookFormat::Stripe, {"", "", "v1=" + Signature}), SignatureVerdict::Missing);
  EXPECT_EQ(verdict(WebhookFormat::Stripe, {"", "", "t=1790000000,v0=" + Signature}),
            SignatureVerdict::Missing);
  EXPECT_EQ(verdict(WebhookFormat::StandardWebhooks, {"", "1790000000", "v1,abc"}),
            SignatureVerdict::Missing);
}

TEST(SignatureTest, OfSeveralSignaturesOneSuffices) {
  const std::string other(64, '0');
  EXPECT_EQ(verdict(WebhookFormat::Generic, {"", "1790000000", other + ", " + Signature}),
            SignatureVerdict::Valid);
  EXPECT_EQ(verdict(WebhookFormat::Stripe,
                    {"", "", "t=1790000000,v1=" + other + ",v1=" + Signature + ",v0=" + other}),
            SignatureVerdict::Valid);
}

TEST(SignatureTest, TheExampleOfStandardWebhooksIsAccepted) {
  // From the specification of Standard Webhooks.
  const std::vector<WebhookKey> keys = {{"k", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}};
  const SignatureHeaders headers{"msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
                                 "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="};
  EXPECT_EQ(verifySignature(WebhookFormat::StandardWebhooks, headers, R"({"test": 2432232314})",
                            keys, {std::chrono::seconds(1614265330), std::chrono::minutes(5)})
                .verdict,
            SignatureVerdict::Valid);
}

}  // namespace
}  // namespace idempotency::operator_api
