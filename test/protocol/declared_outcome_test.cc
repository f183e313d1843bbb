#include "source/protocol/declared_outcome.h"

#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace idempotency::protocol {
namespace {

using enum DeclaredOutcome;

DeclaredOutcome parse(std::vector<std::string_view> lines) {
  return parseDeclaredOutcome(lines);
}

TEST(DeclaredOutcomeTest, WordsOfThePage) {
  EXPECT_EQ(parse({"not-run"}), NotRun);
  EXPECT_EQ(parse({"retryable"}), Retryable);
  EXPECT_EQ(parse({"completed"}), Completed);
  EXPECT_EQ(parse({"unknown"}), Unknown);
}

TEST(DeclaredOutcomeTest, CaseSpacesAndParametersDoNotMatter) {
  EXPECT_EQ(parse({"Not-Run"}), NotRun);
  EXPECT_EQ(parse({"  completed  "}), Completed);
  EXPECT_EQ(parse({"not-run;reason=\"declined\""}), NotRun);
}

TEST(DeclaredOutcomeTest, WithoutTheFieldNothingIsDeclared) {
  EXPECT_EQ(parse({}), None);
}

// A value that was meant to say something is never taken for silence.
TEST(DeclaredOutcomeTest, WhatHasNoMeaningIsInvalid) {
  for (const std::string_view line :
       {"", " ", "done", "not_run", "\"not-run\"", "(not-run)", "not-run,", "1", "?1", "not run",
        "not-run; reason=", "completed\x01"}) {
    EXPECT_EQ(parse({line}), Invalid) << line;
  }
}

TEST(DeclaredOutcomeTest, LinesMustAgree) {
  EXPECT_EQ(parse({"not-run", "not-run"}), NotRun);
  EXPECT_EQ(parse({"not-run, not-run"}), NotRun);
  EXPECT_EQ(parse({"not-run", "completed"}), Invalid);
  EXPECT_EQ(parse({"completed, not-run"}), Invalid);
  EXPECT_EQ(parse({"completed", "nonsense"}), Invalid);
}

}  // namespace
}  // namespace idempotency::protocol
