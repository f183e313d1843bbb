#include <set>
#include <string>

#include <gtest/gtest.h>

#include "source/operator_api/base64.h"
#include "source/operator_api/cursor.h"
#include "source/operator_api/record_id.h"
#include "source/operator_api/text.h"

namespace idempotency::operator_api {
namespace {

TEST(Base64Test, TextsOfTheStandardAreRead) {  // RFC 4648, section 10.
  EXPECT_EQ(toBase64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(toBase64("fooba"), "Zm9vYmE=");
  EXPECT_EQ(toBase64("foob"), "Zm9vYg==");
  EXPECT_EQ(toBase64(""), "");
  EXPECT_EQ(fromBase64("Zm9vYg=="), "foob");
  EXPECT_EQ(toBase64Url("\xff\xfe\xfd"), "__79");
  EXPECT_EQ(fromBase64Url("__79"), "\xff\xfe\xfd");
}

TEST(Base64Test, WhatNoBytesGiveIsRefused) {
  for (const char* text : {"Z", "Zg", "Zg=", "Zh==", "Z===", "Zg==Zg==", "Zm9v!mFy", "Z g="}) {
    EXPECT_EQ(fromBase64(text), std::nullopt) << text;
  }
  for (const char* text : {"Z", "Zh", "Zg==", "a+b/", "Zm9vY"}) {
    EXPECT_EQ(fromBase64Url(text), std::nullopt) << text;
  }
}

TEST(RecordIdTest, AnyBytesSurvive) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    all += static_cast<char>(byte);
  }
  for (const protocol::Identity& identity :
       {protocol::Identity{"", "", ""}, protocol::Identity{"a", "", "b"},
        protocol::Identity{all, all, all}}) {
    const std::string id = recordId(identity);
    EXPECT_EQ(
        id.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
        std::string::npos);
    EXPECT_EQ(parseRecordId(id), identity);
  }
}

TEST(RecordIdTest, NamesThatJoinToTheSameTextHaveDifferentIds) {
  const std::set<std::string> ids = {recordId({"ab", "c", ""}), recordId({"a", "bc", ""}),
                                     recordId({"", "abc", ""}), recordId({"a", "b", "c"})};
  EXPECT_EQ(ids.size(), 4);
}

TEST(RecordIdTest, WhatIsNoIdIsRefused) {
  const std::string id = recordId({"acme", "pay", "key"});
  for (const std::string& text : {std::string(), std::string("acme"), id.substr(0, id.size() - 4),
                                  id + "AAAA", id + "=", std::string(10'000, 'A')}) {
    EXPECT_EQ(parseRecordId(text), std::nullopt) << text;
  }
}

TEST(CursorTest, OneKindIsNotTakenForTheOther) {
  const protocol::Identity last{"acme", "pay", "key"};
  EXPECT_EQ(parseRecordCursor(recordCursor(last)), last);
  EXPECT_EQ(parseAuditCursor(auditCursor(12)), 12);
  EXPECT_EQ(parseRecordCursor(auditCursor(12)), std::nullopt);
  EXPECT_EQ(parseAuditCursor(recordCursor(last)), std::nullopt);
}

TEST(TextTest, BytesThatAreNoTextAreReplaced) {
  EXPECT_EQ(shownText("caf\xc3\xa9"), "caf\xc3\xa9");
  EXPECT_EQ(shownText("a\xff\xc3"), "a\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(TextTest, TimesAreInUtcWithMilliseconds) {
  const store::StoreTime time{std::chrono::milliseconds(1'709'210'096'007)};
  EXPECT_EQ(formatTime(time), "2024-02-29T12:34:56.007Z");
  EXPECT_EQ(parseTime("2024-02-29T12:34:56.007Z"), time);
  for (const char* text :
       {"", "2023-02-29T12:34:56.007Z", "2024-02-29T24:34:56.007Z", "2024-02-29 12:34:56.007Z",
        "2024-02-29T12:34:56Z", "2024-02-29T12:34:56.007Zx", "-024-02-29T12:34:56.007Z"}) {
    EXPECT_EQ(parseTime(text), std::nullopt) << text;
  }
}

TEST(TextTest, EveryStateHasANameThatIsReadBack) {
  for (const auto state : {protocol::RecordState::InProgress, protocol::RecordState::Completed,
                           protocol::RecordState::FailedRetryable, protocol::RecordState::Unknown,
                           protocol::RecordState::Expired}) {
    EXPECT_EQ(parseState(stateName(state)), state);
  }
  EXPECT_EQ(parseState("Unknown"), std::nullopt);
}

TEST(TextTest, AnAttemptIsAPositiveNumber) {
  EXPECT_EQ(parseAttempt("9223372036854775807"), 9'223'372'036'854'775'807);
  for (const char* text : {"", "0", "-1", "+1", "1.0", "9223372036854775808", "0x1", "1 ", "01"}) {
    EXPECT_EQ(parseAttempt(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace idempotency::operator_api
