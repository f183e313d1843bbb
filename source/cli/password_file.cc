#include "source/cli/password_file.h"

#include "source/cli/input_file.h"

namespace idempotency::cli {
namespace {

constexpr size_t LongestPassword = 4096;

}  // namespace

absl::StatusOr<std::string> readPasswordFile(std::string_view name) {
  auto password = readInputFile(name, LongestPassword);
  if (!password.ok()) {
    return password.status();
  }
  while (!password->empty() && (password->back() == '\n' || password->back() == '\r')) {
    password->pop_back();
  }
  return password;
}

}  // namespace idempotency::cli
