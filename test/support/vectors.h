#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace idempotency {

// Published test vectors, which the test lists in `data` as @vectors//:structured_fields or
// @vectors//:jcs. What is missing ends the test program with a message: a test that finds no
// vectors must not pass.

// A folder of the vectors, such as "jcs/input".
std::filesystem::path vectorFolder(std::string_view folder);

// The regular files of a folder (not of its subfolders), sorted by name; at least one.
std::vector<std::filesystem::path> vectorFiles(std::string_view folder);

// The bytes of a file.
std::string readVector(const std::filesystem::path& file);

}  // namespace idempotency
