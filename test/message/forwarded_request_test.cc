#include "source/message/forwarded_request.h"

#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace idempotency::message {
namespace {

using Fields = std::vector<protocol::FieldView>;
using Pieces = std::vector<std::string_view>;

const Fields Post = {{":method", "POST"},
                     {":path", "/payments?a=1&b=%20"},
                     {":scheme", "https"},
                     {":authority", "api.example.com:8443"}};

Fields with(Fields fields, const Fields& more) {
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

std::string serialize(const Fields& headers, const Pieces& body, const Fields& trailers = {},
                      bool ends_with_headers = false) {
  return serializeForRun({headers, body, trailers, ends_with_headers}, "t0ken");
}

constexpr std::string_view Begin =
    "POST /payments?a=1&b=%20 HTTP/1.1\r\n"
    "host: api.example.com:8443\r\n";
constexpr std::string_view Own =
    "idempotency-run: t0ken\r\n"
    "connection: close\r\n";

std::string message(std::string_view fields, std::string_view rest) {
  return std::string(Begin).append(fields).append(Own).append(rest);
}

TEST(ForwardedRequestTest, RequestWithALengthKeepsIt) {
  EXPECT_EQ(serialize(with(Post, {{"content-length", "8"}, {"content-type", "text/plain"}}),
                      {"half", "half"}),
            message("content-type: text/plain\r\n", "content-length: 8\r\n\r\nhalfhalf"));
}

TEST(ForwardedRequestTest, PathBeyondAsciiIsEscaped) {
  const Fields headers = {
      {":method", "POST"}, {":path", "/caf\xc3\xa9?q=%20\xff"}, {":authority", "a"}};
  EXPECT_THAT(serialize(headers, {}), testing::StartsWith("POST /caf%C3%A9?q=%20%FF HTTP/1.1\r\n"));
  EXPECT_TRUE(needsEscapes("/caf\xc3\xa9"));
  EXPECT_FALSE(needsEscapes("/caf%C3%A9?q=~"));
}

// A filter may have set anything. What would change the message's meaning is not sent at all.
TEST(ForwardedRequestTest, UnsafeRequestIsNotWritten) {
  const Fields unsafe_fields[] = {
      {{"x-a", "1\r\nidempotency-run: other"}},
      {{"x-a", "1\n2"}},
      {{"x-a", std::string_view("1\0", 2)}},
      {{"x-a\r\nx-b", "1"}},
      {{"x a", "1"}},
      {{"x-a:", "1"}},
      {{"", "1"}},
  };
  for (const Fields& fields : unsafe_fields) {
    EXPECT_EQ(serialize(with(Post, fields), {"{}"}), "");
    EXPECT_EQ(serialize(Post, {"{}"}, fields), "");
  }
  for (const Fields& first_line :
       {Fields{{":method", "POST /x"}, {":path", "/"}, {":authority", "a"}},
        Fields{{":method", "POST"}, {":path", "/ HTTP/1.1\r\nx-a: 1"}, {":authority", "a"}},
        Fields{{":method", "POST"}, {":path", ""}, {":authority", "a"}},
        Fields{{":method", ""}, {":path", "/"}, {":authority", "a"}},
        Fields{{":method", "POST"}, {":path", "/"}, {":authority", "a\r\nx-a: 1"}}}) {
    EXPECT_EQ(serialize(first_line, {"{}"}), "");
  }
}

TEST(ForwardedRequestTest, RequestWithoutALengthIsChunked) {
  EXPECT_EQ(serialize(Post, {"0123456789", "abcdef"}),
            message("", "transfer-encoding: chunked\r\n\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n"));
}

// A chunk without bytes would be the end.
TEST(ForwardedRequestTest, EmptyBodyWithoutALengthIsChunked) {
  const std::string empty = message("", "transfer-encoding: chunked\r\n\r\n0\r\n\r\n");
  EXPECT_EQ(serialize(Post, {}), empty);
  EXPECT_EQ(serialize(Post, {"", ""}), empty);
}

TEST(ForwardedRequestTest, RequestThatEndsWithItsHeadersHasNoFraming) {
  EXPECT_EQ(serialize(Post, {}, {}, true), message("", "\r\n"));
}

TEST(ForwardedRequestTest, LengthOfZeroStays) {
  EXPECT_EQ(serialize(with(Post, {{"content-length", "0"}}), {}, {}, true),
            message("", "content-length: 0\r\n\r\n"));
}

TEST(ForwardedRequestTest, TrailersFollowTheLastChunk) {
  EXPECT_EQ(serialize(with(Post, {{"content-length", "2"}, {"te", "trailers"}}), {"{}"},
                      {{"checksum", "1"}, {"checksum", "2"}}),
            message("te: trailers\r\n",
                    "transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
                    "checksum: 1\r\nchecksum: 2\r\n\r\n"));
}

// The length says what the body is, not what somebody announced.
TEST(ForwardedRequestTest, LengthIsThatOfTheBody) {
  EXPECT_EQ(serialize(with(Post, {{"content-length", "99"}}), {"{}"}),
            message("", "content-length: 2\r\n\r\n{}"));
}

TEST(ForwardedRequestTest, FieldsOfTheOldConnectionStayThere) {
  EXPECT_EQ(serialize(with(Post, {{"connection", "upgrade"},
                                  {"host", "forged.example"},
                                  {"http2-settings", "x"},
                                  {"keep-alive", "timeout=5"},
                                  {"proxy-connection", "close"},
                                  {"transfer-encoding", "chunked"},
                                  {"upgrade", "h2c"},
                                  {"x-kept", "yes"}}),
                      {}, {}, true),
            message("x-kept: yes\r\n", "\r\n"));
}

TEST(ForwardedRequestTest, OtherFieldsKeepTheirOrderAndTheirBytes) {
  EXPECT_EQ(serialize(with(Post, {{"x-b", " 1,  2 "},
                                  {"x-a", ""},
                                  {"x-b", "\"\xC3\xA9\""},
                                  {"x_under", "1"},
                                  {"expect", "100-continue"}}),
                      {}, {}, true),
            message("x-b:  1,  2 \r\nx-a: \r\nx-b: \"\xC3\xA9\"\r\nx_under: 1\r\n"
                    "expect: 100-continue\r\n",
                    "\r\n"));
}

TEST(ForwardedRequestTest, BodyMayContainAnyByte) {
  const std::string body("\0\r\n0\r\n\r\n\xFF", 9);
  EXPECT_EQ(serialize(with(Post, {{"content-length", "9"}}), {body}),
            message("", "content-length: 9\r\n\r\n" + body));
  EXPECT_EQ(serialize(Post, {body}),
            message("", "transfer-encoding: chunked\r\n\r\n9\r\n" + body + "\r\n0\r\n\r\n"));
}

}  // namespace
}  // namespace idempotency::message
