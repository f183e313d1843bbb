#include "source/config/conninfo.h"

#include <string>

#include <gtest/gtest.h>

namespace idempotency::config {
namespace {

TEST(ConninfoTest, CleanStrings) {
  for (const char* text :
       {"",
        "host=db",
        "host=db dbname=app user=f sslmode=verify-full",
        " host = db  port=1 ",
        "host='a b' user=x",
        R"(host='it\'s' user=x)",
        R"(host=a\ b user=x)",
        "host=''",
        "host=",
        "user=password",
        "application_name='password=x'",
        "passfile=/run/pgpass",
        "host=a\tport=5432\n",
        "postgresql://",
        "postgres://h/db",
        "postgresql://u@h:5432/db",
        "postgresql://u@h1:1,h2:2/db?target_session_attrs=read-write&sslmode=verify-full",
        "postgres://h/db?application_name=a:b@c",
        "postgres://[::1]:5432/db",
        "postgres://h/a:b@c"}) {
    EXPECT_EQ(inspectConninfo(text), ConninfoContent::Clean) << text;
  }
}

TEST(ConninfoTest, PasswordsAreFound) {
  for (const char* text :
       {"password=x", "host=db password=x", "host=db password = x", "host=db password='x y'",
        "host=db password=", "password=x host=db", "host=a\npassword=x", "sslpassword=x",
        R"(host='a\' b' password=x)", "postgresql://u:p@h/db", "postgres://u:p@h",
        "postgres://u:@h", "postgres://u:p%40x@h1,h2/db", "postgres://u@h?password=x",
        "postgres://u@h/db?sslmode=require&password=x", "postgres://h?pass%77ord=x",
        "postgres://h?sslpassword=x", "postgres://:p@h/db"}) {
    EXPECT_EQ(inspectConninfo(text), ConninfoContent::Password) << text;
  }
}

TEST(ConninfoTest, OtherTextIsMalformed) {
  for (const char* text : {"host", "host db", "=x", "host=a port", "host='a", R"(host='a\')",
                           "host=a =b", "mysql://u@h/db", "hunter2"}) {
    EXPECT_EQ(inspectConninfo(text), ConninfoContent::Malformed) << text;
  }
  EXPECT_EQ(inspectConninfo(std::string("host=a\0", 7)), ConninfoContent::Malformed);
}

}  // namespace
}  // namespace idempotency::config
