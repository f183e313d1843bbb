#include "test/operator_client/http_server.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cctype>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gtest/gtest.h"

#include "fmt/format.h"

namespace idempotency::test {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

// Reads more; false: the client has gone.
bool readMore(int descriptor, std::string& bytes) {
  std::array<char, 65536> piece{};
  const ssize_t count = recv(descriptor, piece.data(), piece.size(), 0);
  if (count > 0) {
    bytes.append(piece.data(), static_cast<size_t>(count));
  }
  return count > 0;
}

HttpRequest parseHead(std::string_view head) {
  HttpRequest request;
  const std::string_view line = head.substr(0, head.find("\r\n"));
  request.method = line.substr(0, line.find(' '));
  const std::string_view rest = line.substr(line.find(' ') + 1);
  request.path = rest.substr(0, rest.find(' '));
  for (size_t at = line.size() + 2; at < head.size();) {
    const std::string_view field = head.substr(at, head.find("\r\n", at) - at);
    const size_t colon = field.find(": ");
    request.headers[lower(field.substr(0, colon))] = field.substr(colon + 2);
    at += field.size() + 2;
  }
  return request;
}

// None: the client has gone.
std::optional<HttpRequest> readRequest(int descriptor, std::string& bytes) {
  constexpr std::string_view End = "\r\n\r\n";
  while (bytes.find(End) == std::string::npos) {
    if (!readMore(descriptor, bytes)) {
      return std::nullopt;
    }
  }
  const size_t end = bytes.find(End);
  HttpRequest request = parseHead(std::string_view(bytes).substr(0, end + 2));
  bytes.erase(0, end + End.size());
  const auto length = request.headers.find("content-length");
  const size_t size = length == request.headers.end() ? 0 : std::stoul(length->second);
  while (bytes.size() < size) {
    if (!readMore(descriptor, bytes)) {
      return std::nullopt;
    }
  }
  request.body = bytes.substr(0, size);
  bytes.erase(0, size);
  return request;
}

}  // namespace

bool HttpPeer::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

void HttpPeer::answer(int status, const std::string& media_type, const std::string& body) const {
  send(fmt::format("HTTP/1.1 {} Text\r\ncontent-type: {}\r\ncontent-length: {}\r\n\r\n{}", status,
                   media_type, body.size(), body));
}

void HttpPeer::waitUntilGone() const {
  pollfd waiting = {.fd = descriptor_, .events = POLLRDHUP, .revents = 0};
  poll(&waiting, 1, -1);
}

void HttpPeer::close() const {
  shutdown(descriptor_, SHUT_RDWR);
}

HttpServer::HttpServer(Handle handle)
    : handle_(std::move(handle)), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(listener_, 16), 0);
  EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept(); });
}

HttpServer::~HttpServer() {
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const int connection : connections_) {
      shutdown(connection, SHUT_RDWR);
    }
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
  for (const int connection : connections_) {
    ::close(connection);
  }
  ::close(listener_);
}

std::string HttpServer::url() const {
  return fmt::format("http://127.0.0.1:{}", port_);
}

std::vector<HttpRequest> HttpServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void HttpServer::accept() {
  for (;;) {
    const int descriptor = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (descriptor < 0) {
      return;
    }
    const std::lock_guard lock(mutex_);
    connections_.push_back(descriptor);
    threads_.emplace_back([this, descriptor] { serve(descriptor); });
  }
}

void HttpServer::serve(int descriptor) {
  std::string bytes;
  while (const auto request = readRequest(descriptor, bytes)) {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(*request);
    }
    HttpPeer peer(descriptor);
    handle_(*request, peer);
  }
}

}  // namespace idempotency::test
