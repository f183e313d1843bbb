// docs/answers.md says of every answer what the code says.
#include <fmt/format.h>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "source/protocol/problem.h"

namespace idempotency::protocol {
namespace {

// The first four columns of each row of the page's table, as text.
std::vector<std::string> documentedRows() {
  std::ifstream file("docs/answers.md");
  EXPECT_TRUE(file.good()) << "docs/answers.md";
  std::vector<std::string> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| `")) {
      rows.push_back(line.substr(0, line.rfind(" | ")));
    }
  }
  return rows;
}

std::vector<std::string> definedRows() {
  std::vector<std::string> rows;
  for (const ProblemText& text : problemTexts()) {
    rows.push_back(fmt::format("| `{}` | {} | {} | `{}`, `{}`", text.code, text.status,
                               text.grpc_status, text.stripe_type,
                               text.stripe_code.empty() ? text.code : text.stripe_code));
  }
  return rows;
}

TEST(AnswersPageTest, HasARowForEveryAnswer) {
  EXPECT_THAT(documentedRows(), ::testing::UnorderedElementsAreArray(definedRows()));
}

}  // namespace
}  // namespace idempotency::protocol
