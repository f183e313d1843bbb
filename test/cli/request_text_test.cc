#include "source/cli/request_text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace idempotency::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using namespace std::string_literals;

std::string problem(std::string_view text) {
  const auto request = parseRequestText(text);
  return request.ok() ? "ok" : std::string(request.status().message());
}

TEST(RequestTextTest, ReadsEveryPart) {
  const auto request = parseRequestText("POST /a?b=c HTTP/1.1\nHost: x\nX-Two:  a b \t\n\nbody\n");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->method, "POST");
  EXPECT_EQ(request->path, "/a?b=c");
  EXPECT_THAT(request->headers, ElementsAre(Pair("host", "x"), Pair("x-two", "a b")));
  EXPECT_EQ(request->body, "body\n");
}

TEST(RequestTextTest, LinesMayEndWithCrLf) {
  const auto request = parseRequestText("POST / HTTP/1.1\r\nA: b\r\n\r\n\r\nx\r\n");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(request->headers, ElementsAre(Pair("a", "b")));
  EXPECT_EQ(request->body, "\r\nx\r\n");
}

TEST(RequestTextTest, HeadersAndBodyMayBeMissing) {
  const auto request = parseRequestText("DELETE * HTTP/2\n\n");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(request->headers, IsEmpty());
  EXPECT_EQ(request->body, "");
}

TEST(RequestTextTest, RepeatedHeadersKeepTheirOrder) {
  EXPECT_THAT(parseRequestText("A / HTTP/1.1\nX: 2\nY: 3\nx: 1\n\n")->headers,
              ElementsAre(Pair("x", "2"), Pair("y", "3"), Pair("x", "1")));
}

TEST(RequestTextTest, TheBodyMayHoldAnyByte) {
  const std::string body = "\0\xff\n\r\n\n"s;
  EXPECT_EQ(parseRequestText("POST / HTTP/1.1\n\n" + body)->body, body);
}

TEST(RequestTextTest, AFittingContentLengthIsTaken) {
  EXPECT_EQ(problem("POST / HTTP/1.1\nContent-Length: 4\n\nbody"), "ok");
  EXPECT_EQ(problem("POST / HTTP/1.1\nContent-Length: 0\n\n"), "ok");
}

TEST(RequestTextTest, WhatIsNoRequestIsRefusedWithItsLine) {
  const std::string no_request_line = "line 1: not a request line such as 'POST /path HTTP/1.1'";
  EXPECT_EQ(problem(""), "no request line");
  EXPECT_EQ(problem("POST / HTTP/1.1"), "no request line");
  EXPECT_EQ(problem("\n\n"), no_request_line);
  EXPECT_EQ(problem("POST /\n\n"), no_request_line);
  EXPECT_EQ(problem("POST / FTP/1\n\n"), no_request_line);
  EXPECT_EQ(problem("{\"amount\": 100}\n"), no_request_line);
  EXPECT_EQ(problem("POST HTTP/1.1\n\n"), no_request_line);
  EXPECT_EQ(problem("P@ST / HTTP/1.1\n\n"), "line 1: not an HTTP method: P@ST");
  EXPECT_EQ(problem(" / HTTP/1.1\n\n"), "line 1: not an HTTP method: ");
  EXPECT_EQ(problem("POST http://x/ HTTP/1.1\n\n"),
            "line 1: not a path such as '/orders?id=1': http://x/");
  EXPECT_EQ(problem("POST /a b HTTP/1.1\n\n"), "line 1: not a path such as '/orders?id=1': /a b");
  EXPECT_EQ(problem("POST  HTTP/1.1\n\n"), "line 1: not a path such as '/orders?id=1': ");
  EXPECT_EQ(problem("POST /\0 HTTP/1.1\n\n"s), "line 1: not a path such as '/orders?id=1': /\\x00");
  EXPECT_EQ(problem("POST / HTTP/1.1\n"), "no empty line after the headers");
  EXPECT_EQ(problem("POST / HTTP/1.1\nA: b"), "no empty line after the headers");
}

TEST(RequestTextTest, BadHeadersAreRefusedWithTheirLine) {
  EXPECT_EQ(problem("POST / HTTP/1.1\nA: b\nfoo\n\n"),
            "line 3: not a header such as 'Name: value': foo");
  EXPECT_EQ(problem("POST / HTTP/1.1\n: b\n\n"), "line 2: not a header such as 'Name: value': : b");
  EXPECT_EQ(problem("POST / HTTP/1.1\nA : b\n\n"),
            "line 2: not a header such as 'Name: value': A : b");
  EXPECT_EQ(problem("POST / HTTP/1.1\nA: b\n folded: x\n\n"),
            "line 3: not a header such as 'Name: value':  folded: x");
  EXPECT_EQ(problem("POST / HTTP/1.1\nA: b\0c\n\n"s),
            "line 2: header A contains a control character");
  EXPECT_EQ(problem("POST / HTTP/1.1\nA: b\rc\n\n"),
            "line 2: header A contains a control character");
}

TEST(RequestTextTest, ABodyOfAnotherLengthIsRefused) {
  EXPECT_EQ(problem("POST / HTTP/1.1\nContent-Length: 4\n\nbody\n"),
            "Content-Length is 4, but the body has 5 bytes");
  EXPECT_EQ(problem("POST / HTTP/1.1\nContent-Length: 5\n\nbody"),
            "Content-Length is 5, but the body has 4 bytes");
  EXPECT_EQ(problem("POST / HTTP/1.1\nContent-Length: x\n\n"),
            "Content-Length is x, but the body has 0 bytes");
  EXPECT_EQ(problem("POST / HTTP/1.1\nContent-Length:\n\n"),
            "Content-Length is , but the body has 0 bytes");
  EXPECT_EQ(problem("POST / HTTP/1.1\nContent-Length: 0\nContent-Length: 1\n\n"),
            "Content-Length is 1, but the body has 0 bytes");
}

TEST(RequestTextTest, AnEncodedBodyIsRefused) {
  EXPECT_EQ(problem("POST / HTTP/1.1\nTransfer-Encoding: chunked\n\n0\r\n\r\n"),
            "Transfer-Encoding is not supported: omit it and write the body as it is");
}

TEST(ContentTypeTest, IsTakenFromTheHeaders) {
  const auto with = parseRequestText("POST / HTTP/1.1\nA: b\nContent-Type: text/plain\n\n");
  EXPECT_EQ(*contentType(*with), "text/plain");
  const auto without = parseRequestText("POST / HTTP/1.1\nA: b\n\n");
  EXPECT_EQ(*contentType(*without), std::nullopt);
}

TEST(AuthorityTest, IsTakenFromTheHost) {
  const auto with = parseRequestText("POST / HTTP/1.1\nHost: api.example.com:443\n\n");
  EXPECT_EQ(*authority(*with), "api.example.com:443");
  const auto without = parseRequestText("POST / HTTP/1.1\nX-Forwarded-Host: a\n\n");
  EXPECT_EQ(*authority(*without), std::nullopt);
  const auto two = parseRequestText("POST / HTTP/1.1\nHost: a\nhost: a\n\n");
  EXPECT_EQ(authority(*two).status().message(), "more than one Host header");
}

TEST(ContentTypeTest, TwoAreRefused) {
  const auto request = parseRequestText("POST / HTTP/1.1\nContent-Type: a\ncontent-type: a\n\n");
  EXPECT_EQ(contentType(*request).status().message(), "more than one Content-Type header");
}

}  // namespace
}  // namespace idempotency::cli
