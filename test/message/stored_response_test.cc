#include "source/message/stored_response.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/idempotency/v1/stored_response.pb.h"

namespace idempotency::message {
namespace {

protocol::StoredResponse sample() {
  return {201,
          {{"content-type", "text/plain"}, {"x-a", "1"}, {"x-a", std::string("\xff\t", 2)}},
          std::string("he\0llo", 6),
          {{"x-t", ""}}};
}

v1::StoredResponse sampleMessage() {
  v1::StoredResponse message;
  EXPECT_TRUE(message.ParseFromString(serializeResponse(sample())));
  return message;
}

absl::StatusCode codeOf(const v1::StoredResponse& message) {
  return parseResponse(message.SerializeAsString()).status().code();
}

TEST(StoredResponseTest, SurvivesTheStore) {
  const auto parsed = parseResponse(serializeResponse(sample()));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, sample());
}

TEST(StoredResponseTest, EveryStatusAndAnEmptyBodySurvive) {
  for (int32_t status = 200; status <= 599; ++status) {
    const protocol::StoredResponse response{status, {}, "", {}};
    const auto parsed = parseResponse(serializeResponse(response));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, response);
  }
}

TEST(StoredResponseTest, LargestBodySurvives) {
  protocol::StoredResponse response = sample();
  response.body.assign(64 << 20, '\xab');
  const auto parsed = parseResponse(serializeResponse(response));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, response);
}

// Records of running systems must stay readable: these bytes never change.
TEST(StoredResponseTest, BytesOfSchemaOneAreFixed) {
  const protocol::StoredResponse response{200, {{"a", "b"}}, "c", {{"d", "e"}}};
  const std::string bytes(
      "\x08\x01\x10\xc8\x01\x1a\x06\x0a\x01"
      "a\x12\x01"
      "b\x22\x01"
      "c\x2a\x06\x0a\x01"
      "d\x12\x01"
      "e",
      24);
  EXPECT_EQ(serializeResponse(response), bytes);
  const auto parsed = parseResponse(bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, response);
}

TEST(StoredResponseTest, UnknownSchemaIsRefused) {
  v1::StoredResponse message = sampleMessage();
  for (const uint32_t schema : {0u, 2u, 4294967295u}) {
    message.set_schema(schema);
    EXPECT_EQ(codeOf(message), absl::StatusCode::kUnimplemented) << schema;
  }
}

TEST(StoredResponseTest, NothingIsNotAResponse) {
  EXPECT_EQ(parseResponse("").status().code(), absl::StatusCode::kUnimplemented);
}

TEST(StoredResponseTest, DamagedBytesAreRefused) {
  const std::string bytes = serializeResponse(sample());
  // Cut anywhere: refused, or (at a field's end) at least not taken for the whole.
  for (size_t length = 0; length < bytes.size(); ++length) {
    const auto parsed = parseResponse(std::string_view(bytes).substr(0, length));
    EXPECT_TRUE(!parsed.ok() || !(*parsed == sample())) << length;
  }
  EXPECT_EQ(parseResponse("\xff\xff\xff\xff").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(parseResponse(bytes + "\x1a\x7f").status().code(), absl::StatusCode::kDataLoss);
}

TEST(StoredResponseTest, StatusMustBeFinal) {
  v1::StoredResponse message = sampleMessage();
  for (const uint32_t status : {0u, 199u, 600u, 4294967295u}) {
    message.set_status(status);
    EXPECT_EQ(codeOf(message), absl::StatusCode::kDataLoss) << status;
  }
}

TEST(StoredResponseTest, FieldsThatSplitAResponseAreRefused) {
  v1::StoredResponse message = sampleMessage();
  message.mutable_headers(0)->set_value("a\r\nb");
  EXPECT_EQ(codeOf(message), absl::StatusCode::kDataLoss);
  message = sampleMessage();
  message.mutable_trailers(0)->set_name("x y");
  EXPECT_EQ(codeOf(message), absl::StatusCode::kDataLoss);
  message = sampleMessage();
  message.mutable_headers(0)->set_name(":status");
  EXPECT_EQ(codeOf(message), absl::StatusCode::kDataLoss);
}

TEST(StoredResponseTest, TooManyFieldsAreRefused) {
  v1::StoredResponse message = sampleMessage();
  for (int i = 0; i < 1001; ++i) {
    message.add_headers()->set_name("x");
  }
  EXPECT_EQ(codeOf(message), absl::StatusCode::kDataLoss);
}

TEST(StoredResponseTest, TooManyBytesAreRefusedUnread) {
  EXPECT_EQ(parseResponse(std::string(MaxStoredResponseBytes + 1, '\0')).status().code(),
            absl::StatusCode::kOutOfRange);
}

TEST(StoredResponseTest, ErrorsShowNothingOfTheContent) {
  v1::StoredResponse message = sampleMessage();
  message.mutable_headers(0)->set_value("hunter2\r\n");
  const auto parsed = parseResponse(message.SerializeAsString());
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(std::string(parsed.status().message()), testing::Not(testing::HasSubstr("hunter2")));
}

// A later version may add fields without a new schema if old readers may ignore them.
TEST(StoredResponseTest, UnknownFieldsAreIgnored) {
  const std::string bytes = serializeResponse(sample()) + std::string("\xa2\x06\x01x", 4);
  const auto parsed = parseResponse(bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, sample());
}

}  // namespace
}  // namespace idempotency::message
