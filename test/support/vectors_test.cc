#include "test/support/vectors.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace idempotency {
namespace {

std::vector<std::string> names(std::string_view folder) {
  std::vector<std::string> result;
  for (const auto& file : vectorFiles(folder)) {
    result.push_back(file.filename());
  }
  return result;
}

TEST(VectorsTest, CanonicalJsonFilesAreThereInPairs) {
  EXPECT_THAT(names("jcs/input"),
              testing::ElementsAre("arrays.json", "french.json", "structures.json", "unicode.json",
                                   "values.json", "weird.json"));
  EXPECT_EQ(names("jcs/input"), names("jcs/output"));
}

TEST(VectorsTest, StructuredFieldFilesAreThere) {
  EXPECT_THAT(names("structured-fields"),
              testing::IsSupersetOf({"item.json", "key-generated.json", "param-list.json",
                                     "string-generated.json", "string.json"}));
  EXPECT_THAT(names("structured-fields/serialisation-tests"),
              testing::Contains("string-generated.json"));
}

TEST(VectorsTest, FilesAreReadWhole) {
  EXPECT_EQ(readVector(vectorFolder("jcs/output") / "french.json").front(), '{');
  EXPECT_EQ(readVector(vectorFolder("jcs/output") / "french.json").back(), '}');
}

TEST(VectorsDeathTest, AMissingFolderEndsTheTest) {
  EXPECT_EXIT(vectorFolder("no-such-folder"), testing::ExitedWithCode(1), "run tools/setup");
}

TEST(VectorsDeathTest, AMissingFileEndsTheTest) {
  EXPECT_EXIT(readVector(vectorFolder("jcs") / "no-such-file"), testing::ExitedWithCode(1),
              "run tools/setup");
}

}  // namespace
}  // namespace idempotency
