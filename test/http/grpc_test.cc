#include "source/http/grpc.h"

#include <gtest/gtest.h>

namespace idempotency::http {
namespace {

TEST(GrpcTest, ContentTypes) {
  for (const char* type : {"application/grpc", "application/grpc+proto", "Application/GRPC",
                           "application/grpc;charset=utf-8", "application/grpc ; x"}) {
    EXPECT_TRUE(isGrpc(type)) << type;
  }
  for (const char* type : {"", "application/json", "application/grpc-web",
                           "application/grpc-web+proto", "application/grpcx", "text/grpc"}) {
    EXPECT_FALSE(isGrpc(type)) << type;
  }
}

TEST(GrpcTest, StatusesStandForHttpStatuses) {
  constexpr int Want[] = {200, 499, 500, 400, 504, 404, 409, 403, 429,
                          400, 409, 400, 501, 500, 503, 500, 401};
  for (int i = 0; i <= 16; ++i) {
    EXPECT_EQ(httpStatusOfGrpc(std::to_string(i)), std::optional(Want[i])) << i;
  }
  for (const char* text : {"", "17", "-1", "+1", " 1", "1 ", "OK", "99999999999999999999999"}) {
    EXPECT_EQ(httpStatusOfGrpc(text), std::nullopt) << text;
  }
}

TEST(GrpcTest, MessagesArePercentEncoded) {
  EXPECT_EQ(encodeGrpcMessage("plain ~ text"), "plain ~ text");
  EXPECT_EQ(encodeGrpcMessage("100%\r\n\x7f"), "100%25%0D%0A%7F");
  EXPECT_EQ(encodeGrpcMessage("\xc3\xa4"), "%C3%A4");
}

}  // namespace
}  // namespace idempotency::http
