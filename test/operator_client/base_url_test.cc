#include "source/operator_client/base_url.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace idempotency::operator_client {
namespace {

struct Accepted {
  std::string given;
  std::string base;
  bool is_tls;
};

TEST(BaseUrlTest, APathIsThePrefixAndWithoutOneItIsTheDefault) {
  const std::vector<Accepted> cases = {
      {"https://host", "https://host/idempotency", true},
      {"https://host:9443", "https://host:9443/idempotency", true},
      {"https://host:9443/", "https://host:9443/idempotency", true},
      {"https://host:9443/idempotency/", "https://host:9443/idempotency", true},
      {"http://127.0.0.1:9090/ops/keys", "http://127.0.0.1:9090/ops/keys", false},
      {"http://[::1]:9090", "http://[::1]:9090/idempotency", false},
      {"HTTP://host", "http://host/idempotency", false},
  };
  for (const Accepted& one : cases) {
    const auto url = parseBaseUrl(one.given);
    ASSERT_TRUE(url.ok()) << one.given << ": " << url.status();
    EXPECT_EQ(url->text, one.base) << one.given;
    EXPECT_EQ(url->is_tls, one.is_tls) << one.given;
  }
}

TEST(BaseUrlTest, AnythingElseIsRefusedAndNotRepeated) {
  const std::vector<std::string> cases = {
      "",
      "host",
      "host:9443",
      "ftp://host/",
      "file:///etc/passwd",
      "https://",
      "https://alice:secret@host/",
      "https://secret@host/",
      "https://host/idempotency?secret",
      "https://host/idempotency/#/records/secret",
      "https://host/ space",
      "https://host/\nsecret",
      "https://host:99999999/",
      "unix:/run/secret.sock",
  };
  for (const std::string& given : cases) {
    const auto url = parseBaseUrl(given);
    EXPECT_TRUE(absl::IsInvalidArgument(url.status())) << given;
    const std::string message(url.status().message());
    EXPECT_EQ(message.find("secret"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace idempotency::operator_client
