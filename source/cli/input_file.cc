#include "source/cli/input_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <system_error>
#include <unistd.h>

#include <absl/status/status.h>

#include "source/cli/printable.h"

namespace idempotency::cli {
namespace {

class FileDescriptor {
public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ > STDERR_FILENO) {
      close(fd_);
    }
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

private:
  const int fd_;
};

absl::Status cannotRead(std::string_view name, int error) {
  return absl::InvalidArgumentError(
      fmt::format("cannot read {}: {}", printable(name), std::generic_category().message(error)));
}

}  // namespace

absl::StatusOr<std::string> readInputFile(std::string_view name, size_t limit) {
  const bool is_stdin = name == "-";
  const FileDescriptor file(is_stdin ? STDIN_FILENO
                                     : open(std::string(name).c_str(), O_RDONLY | O_CLOEXEC));
  const std::string_view shown = is_stdin ? "stdin" : name;
  if (file.get() < 0) {
    return cannotRead(shown, errno);
  }
  std::string bytes;
  std::array<char, 65536> buffer;
  while (true) {
    const ssize_t got = read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return cannotRead(shown, errno);
    }
    if (got == 0) {
      return bytes;
    }
    if (static_cast<size_t>(got) > limit - bytes.size()) {
      return absl::InvalidArgumentError(
          fmt::format("{} has more than {} bytes", printable(shown), limit));
    }
    bytes.append(buffer.data(), static_cast<size_t>(got));
  }
}

}  // namespace idempotency::cli
