#include "source/fingerprint/query.h"

#include <algorithm>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace idempotency::fingerprint {
namespace {

std::string sorted(std::string_view query) {
  std::string scratch;
  return std::string(sortedQuery(query, scratch));
}

TEST(SplitPathTest, QueryStartsAtTheFirstQuestionMark) {
  EXPECT_EQ(splitPath("/a").path, "/a");
  EXPECT_EQ(splitPath("/a").query, std::nullopt);
  EXPECT_EQ(splitPath("/a?b=1").path, "/a");
  EXPECT_EQ(splitPath("/a?b=1").query, "b=1");
  EXPECT_EQ(splitPath("/a?b?c").query, "b?c");
  EXPECT_EQ(splitPath("").path, "");
}

TEST(SplitPathTest, EmptyQueryIsNotNone) {
  EXPECT_EQ(splitPath("/a?").path, "/a");
  EXPECT_EQ(splitPath("/a?").query, "");
}

struct Case {
  std::string name;
  std::string query;
  std::string want;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.query;
}

class SortedQueryTest : public testing::TestWithParam<Case> {};

TEST_P(SortedQueryTest, GivesWanted) {
  EXPECT_EQ(sorted(GetParam().query), GetParam().want);
  EXPECT_EQ(sorted(GetParam().want), GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    , SortedQueryTest,
    testing::Values(Case{"Empty", "", ""}, Case{"One", "a=1", "a=1"},
                    Case{"Sorted", "a=1&b=2", "a=1&b=2"}, Case{"Unsorted", "b=2&a=1", "a=1&b=2"},
                    Case{"DuplicatesStay", "a=1&a=1", "a=1&a=1"},
                    Case{"OneNameKeepsItsOrder", "b=0&a=2&a=1", "a=2&a=1&b=0"},
                    Case{"NameEndsAtTheFirstEqualsSign", "a=z=1&a=b&A=3", "A=3&a=z=1&a=b"},
                    Case{"NameWithoutValue", "b&a=1&b=&b", "a=1&b&b=&b"},
                    Case{"ShorterNameFirst", "ab=1&a=2", "a=2&ab=1"},
                    Case{"EmptyParametersStay", "b&&a&", "&&a&b"},
                    Case{"EmptyNames", "a=1&=2&=1", "=2&=1&a=1"},
                    Case{"NothingIsDecoded", "b=1&%61=2&a=3&+=4&%20=5", "%20=5&%61=2&+=4&a=3&b=1"},
                    Case{"SemicolonSeparatesNothing", "b;a=1&a", "a&b;a=1"},
                    Case{"HighOctetsComeLast", "\xff=1&z=2", "z=2&\xff=1"},
                    Case{"HashIsAnOctet", "b=1#x&a=1", "a=1&b=1#x"}),
    [](const auto& info) { return info.param.name; });

// Only the order of differently named parameters is forgotten.
TEST(SortedQueryPropertyTest, EqualOnlyIfEachNameHasTheSameParametersInTheSameOrder) {
  constexpr uint32_t Seed = 3986;
  std::mt19937 random(Seed);
  const auto join = [](const std::vector<std::string>& parameters) {
    std::string query;
    for (const std::string& parameter : parameters) {
      query += (&parameter == &parameters.front() ? "" : "&") + parameter;
    }
    return query;
  };
  const std::vector<std::string> pool = {"a=1", "a=2", "a", "b=1", "b=2", "", "=", "ab"};
  const auto name = [](const std::string& parameter) {
    return parameter.substr(0, parameter.find('='));
  };
  const auto of = [&name](const std::vector<std::string>& parameters, const std::string& wanted) {
    std::vector<std::string> found;
    std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(found),
                 [&](const std::string& parameter) { return name(parameter) == wanted; });
    return found;
  };
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::string> first(random() % 5 + 1);
    std::generate(first.begin(), first.end(), [&] { return pool[random() % pool.size()]; });
    std::vector<std::string> second = first;
    std::shuffle(second.begin(), second.end(), random);
    bool same = true;
    for (const std::string& parameter : first) {
      same = same && of(first, name(parameter)) == of(second, name(parameter));
    }
    ASSERT_EQ(sorted(join(first)) == sorted(join(second)), same)
        << join(first) << " " << join(second);
  }
}

// --- Version 2

NormalQuery normal(std::string_view query, std::string& scratch,
                   QueryOrder order = QueryOrder::Sorted) {
  return normalQuery(query, order, scratch);
}

class NormalQueryTest : public testing::TestWithParam<Case> {};

TEST_P(NormalQueryTest, IsSortedWhereTheOrderMeansNothing) {
  std::string scratch;
  EXPECT_EQ(normal(GetParam().query, scratch).text, GetParam().want);
  EXPECT_FALSE(normal(GetParam().query, scratch).as_sent);
  EXPECT_EQ(normal(GetParam().want, scratch).text, GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    , NormalQueryTest,
    testing::Values(Case{"Empty", "", ""}, Case{"Sorted", "a=1&b=2", "a=1&b=2"},
                    Case{"Unsorted", "b=2&a=1", "a=1&b=2"},
                    Case{"OneNameKeepsItsOrder", "b=0&a=2&a=1", "a=2&a=1&b=0"},
                    Case{"NameWithoutValue", "b&a=1&b=&b", "a=1&b&b=&b"},
                    Case{"EmptyParametersStay", "b&&a&", "&&a&b"},
                    Case{"NamesInOtherCaseKeepTheirOrder", "b=0&a=1&A=2", "a=1&A=2&b=0"},
                    Case{"NamesInOtherCaseKeepThisOrder", "b=0&A=2&a=1", "A=2&a=1&b=0"},
                    Case{"DotAndUnderscoreKeepTheirOrder", "x_y=1&x.y=2&a", "a&x_y=1&x.y=2"},
                    Case{"DotAndUnderscoreKeepThisOrder", "x.y=2&x_y=1&a", "a&x.y=2&x_y=1"},
                    Case{"BracketInAValue", "b=[1]&a=1", "a=1&b=[1]"},
                    Case{"PercentInAValue", "b=%5B1%5D&a=1+2", "a=1+2&b=%5B1%5D"},
                    Case{"EqualsSignInAValue", "b=c=[&a=1", "a=1&b=c=["},
                    Case{"HighOctetsComeLast", "\xff=1&z=2", "z=2&\xff=1"}),
    [](const auto& info) { return info.param.name; });

class OrderedQueryTest : public testing::TestWithParam<std::string> {};

TEST_P(OrderedQueryTest, StaysAsSent) {
  std::string scratch;
  EXPECT_EQ(normal(GetParam(), scratch).text, GetParam());
  EXPECT_TRUE(normal(GetParam(), scratch).as_sent);
}

INSTANTIATE_TEST_SUITE_P(, OrderedQueryTest,
                         testing::Values("i[][n]=x&i[][q]=1&i[][n]=y", "z[]&a=1", "b]=1&a=2",
                                         "z%5Ba%5D=1&a=1", "z%5b=1&a=1", "z%5d=1&a=1",
                                         "b=1&a=1&%61=2", "b=1&%61=2&a=1", "b+c=1&a=2", "b=1;a=2",
                                         "b=1&a=2;c", "b;a", "z=1&b[&a"));

TEST(QueryOrderTest, StaysAsSentByChoice) {
  std::string scratch;
  const NormalQuery query = normal("b=2&a=1", scratch, QueryOrder::AsSent);
  EXPECT_EQ(query.text, "b=2&a=1");
  EXPECT_TRUE(query.as_sent);
}

}  // namespace
}  // namespace idempotency::fingerprint
