#include "test/support/private_listener.h"

#include <array>
#include <cstdio>
#include <poll.h>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace idempotency::test {
namespace {

constexpr std::string_view LineEnd = "\r\n";

// The next line, which is taken away; none: it is not complete.
std::optional<std::string_view> takeLine(std::string_view& text) {
  const size_t end = text.find(LineEnd);
  if (end == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + LineEnd.size());
  return line;
}

// Up to the empty line; false: that has not come yet.
bool takeFields(std::string_view& text, PrivateListener::Fields& fields) {
  for (auto line = takeLine(text); line.has_value(); line = takeLine(text)) {
    if (line->empty()) {
      return true;
    }
    const size_t colon = line->find(": ");
    fields.emplace_back(line->substr(0, colon), line->substr(colon + 2));
  }
  return false;
}

bool takeChunks(std::string_view& text, std::string& body) {
  for (auto line = takeLine(text); line.has_value(); line = takeLine(text)) {
    const size_t size = std::stoul(std::string(*line), nullptr, 16);
    if (size == 0) {
      return true;
    }
    if (text.size() < size + LineEnd.size()) {
      return false;
    }
    body += text.substr(0, size);
    text.remove_prefix(size + LineEnd.size());
  }
  return false;
}

}  // namespace

PrivateListener::PrivateListener(std::string path)
    : path_(std::move(path)),
      descriptor_(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
  unlink(path_.c_str());
  if (bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(descriptor_, 128) != 0) {
    perror(path_.c_str());
  }
}

PrivateListener::~PrivateListener() {
  close(descriptor_);
  unlink(path_.c_str());
}

std::unique_ptr<PrivateListener::Run> PrivateListener::accept() const {
  const int accepted = accept4(descriptor_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  return accepted < 0 ? nullptr : std::make_unique<Run>(accepted);
}

PrivateListener::Run::~Run() {
  close(descriptor_);
}

bool PrivateListener::Run::read() {
  std::array<char, 65536> piece{};
  for (;;) {
    const ssize_t count = recv(descriptor_, piece.data(), piece.size(), 0);
    if (count <= 0) {
      return parse();
    }
    bytes_.append(piece.data(), static_cast<size_t>(count));
  }
}

bool PrivateListener::Run::parse() {
  headers.clear();
  body.clear();
  trailers.clear();
  std::string_view text = bytes_;
  const std::optional<std::string_view> line = takeLine(text);
  Fields fields;
  if (!line.has_value() || !takeFields(text, fields)) {
    return false;
  }
  const size_t space = line->find(' ');
  headers = {{":method", std::string(line->substr(0, space))},
             {":path", std::string(line->substr(space + 1, line->rfind(' ') - space - 1))},
             {":scheme", "http"}};
  bool chunked = false;
  std::optional<size_t> length;
  for (auto& [name, value] : fields) {
    if (name == "host") {
      headers.emplace_back(":authority", value);
    } else if (name == "transfer-encoding") {
      chunked = true;
    } else if (name == "content-length") {
      length = std::stoul(value);
      headers.emplace_back(name, value);
    } else if (name != "connection") {
      headers.emplace_back(std::move(name), std::move(value));
    }
  }
  ends_with_headers = !chunked && length.value_or(0) == 0;
  if (chunked) {
    return takeChunks(text, body) && takeFields(text, trailers);
  }
  body = text;
  return body.size() == length.value_or(0);
}

bool PrivateListener::Run::isClosed() const {
  pollfd waits{.fd = descriptor_, .events = POLLRDHUP, .revents = 0};
  return poll(&waits, 1, 0) == 1;
}

}  // namespace idempotency::test
