#include "source/protocol/envoy_details.h"

#include "gtest/gtest.h"

namespace idempotency::protocol {
namespace {

struct Row {
  std::string_view text;
  std::string_view name;
  std::string_view reason;
};

TEST(EnvoyDetailsTest, NameAndReason) {
  for (const Row& row : {
           Row{"", "", ""},
           Row{"via_upstream", "via_upstream", ""},
           Row{"reset{overflow}", "reset", "overflow"},
           Row{"reset{connection_timeout|TLS_error:_x}", "reset", "connection_timeout"},
           Row{"rbac_access_denied_matched_policy[a{b}]", "rbac_access_denied_matched_policy", ""},
           Row{"denied(why{x})", "denied", ""},
           Row{"name|rest", "name", ""},
           Row{"reset{never_closed", "reset", ""},
       }) {
    const EnvoyDetails details = splitDetails(row.text);
    EXPECT_EQ(details.name, row.name) << row.text;
    EXPECT_EQ(details.reason, row.reason) << row.text;
  }
}

}  // namespace
}  // namespace idempotency::protocol
