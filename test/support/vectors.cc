#include "test/support/vectors.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace idempotency {
namespace {

[[noreturn]] void die(const std::string& what, const std::filesystem::path& where) {
  std::fprintf(stderr, "%s: %s; run tools/setup\n", what.c_str(), where.c_str());
  std::exit(1);
}

}  // namespace

std::filesystem::path vectorFolder(std::string_view folder) {
  const char* const runfiles = std::getenv("TEST_SRCDIR");
  const std::filesystem::path root = runfiles != nullptr ? runfiles : ".";
  std::filesystem::path path = root / "vectors" / folder;
  if (!std::filesystem::is_directory(path)) {
    die("test vectors are missing", path);
  }
  return path;
}

std::vector<std::filesystem::path> vectorFiles(std::string_view folder) {
  const std::filesystem::path path = vectorFolder(folder);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.is_regular_file()) {
      files.push_back(entry.path());
    }
  }
  if (files.empty()) {
    die("no test vectors", path);
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string readVector(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    die("cannot read test vectors", file);
  }
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

}  // namespace idempotency
