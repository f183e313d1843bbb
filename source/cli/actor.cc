#include "source/cli/actor.h"

#include <array>
#include <climits>
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

namespace idempotency::cli {
namespace {

std::string userName() {
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(getuid(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) {
    return fmt::format("uid {}", getuid());
  }
  return found->pw_name;
}

std::string hostName() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown host";
}

}  // namespace

std::string currentActor() {
  return fmt::format("{}@{}", userName(), hostName());
}

}  // namespace idempotency::cli
