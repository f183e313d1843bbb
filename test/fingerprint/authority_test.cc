#include "source/fingerprint/authority.h"

#include <ostream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace idempotency::fingerprint {
namespace {

std::string normal(std::string_view authority, std::string_view scheme) {
  std::string scratch;
  return std::string(normalAuthority(authority, scheme, scratch));
}

struct Case {
  std::string name;
  std::string authority;
  std::string scheme;
  std::string want;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.scheme << "://" << c.authority;
}

class NormalAuthorityTest : public testing::TestWithParam<Case> {};

TEST_P(NormalAuthorityTest, GivesWanted) {
  EXPECT_EQ(normal(GetParam().authority, GetParam().scheme), GetParam().want);
  EXPECT_EQ(normal(GetParam().want, GetParam().scheme), GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    , NormalAuthorityTest,
    testing::Values(Case{"Plain", "api.example.com", "https", "api.example.com"},
                    Case{"HostInOtherCase", "API.Example.COM", "https", "api.example.com"},
                    Case{"DefaultPortOfHttps", "api.example.com:443", "https", "api.example.com"},
                    Case{"DefaultPortOfHttp", "api.example.com:80", "http", "api.example.com"},
                    Case{"DefaultPortAndOtherCase", "API.example.com:443", "https",
                         "api.example.com"},
                    Case{"EmptyPort", "api.example.com:", "https", "api.example.com"},
                    Case{"EmptyPortOfNoScheme", "api.example.com:", "", "api.example.com"},
                    Case{"DefaultPortOfAnotherScheme", "a:80", "https", "a:80"},
                    Case{"DefaultPortOfYetAnother", "a:443", "http", "a:443"},
                    Case{"PortOfNoScheme", "a:443", "", "a:443"},
                    Case{"OtherPort", "a:8443", "https", "a:8443"},
                    Case{"PortThatEndsLikeTheDefaultOne", "a:10443", "https", "a:10443"},
                    Case{"OtherPortAndOtherCase", "A:8443", "https", "a:8443"},
                    Case{"Ipv6", "[2001:DB8::443]", "https", "[2001:db8::443]"},
                    Case{"Ipv6WithDefaultPort", "[2001:db8::1]:443", "https", "[2001:db8::1]"},
                    Case{"Ipv6WithOtherPort", "[2001:db8::1]:80", "https", "[2001:db8::1]:80"},
                    Case{"Ipv6WithoutBrackets", "2001:db8::443", "https", "2001:db8::443"},
                    Case{"TrailingDotIsAnotherName", "a.example.", "https", "a.example."},
                    Case{"Empty", "", "https", ""},
                    Case{"CaseOfWhatIsNoHost", "Me@A.example", "https", "Me@a.example"},
                    Case{"JoinedLines", "a.example,B.example", "https", "a.example,b.example"}),
    [](const auto& info) { return info.param.name; });

TEST(AuthorityTest, CopiesNothingThatHasItsFormAlready) {
  std::string scratch;
  const std::string_view authority = "api.example.com:443";
  EXPECT_EQ(normalAuthority(authority, "https", scratch).data(), authority.data());
  EXPECT_EQ(scratch, "");
}

}  // namespace
}  // namespace idempotency::fingerprint
