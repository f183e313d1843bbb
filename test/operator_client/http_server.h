#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace idempotency::test {

struct HttpRequest {
  std::string method;
  std::string path;                            // With its query.
  std::map<std::string, std::string> headers;  // Names in lower case.
  std::string body;
};

// One connection of a client, for whoever answers.
class HttpPeer {
public:
  explicit HttpPeer(int descriptor) : descriptor_(descriptor) {}

  // False: the client has gone.
  bool send(std::string_view bytes) const;
  // A whole answer with its length. The connection stays open.
  void answer(int status, const std::string& media_type, const std::string& body) const;
  // Until the client goes, or the server ends.
  void waitUntilGone() const;
  void close() const;

private:
  const int descriptor_;
};

// An HTTP/1.1 server on a free port of this machine. Each connection has a thread, on which
// `handle` runs once for each request; it may answer anything or nothing.
class HttpServer {
public:
  using Handle = std::function<void(const HttpRequest&, HttpPeer&)>;

  explicit HttpServer(Handle handle);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  std::string url() const;
  // All that have come, in their order.
  std::vector<HttpRequest> requests() const;

private:
  void accept();
  void serve(int descriptor);

  const Handle handle_;
  int listener_ = -1;
  uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<HttpRequest> requests_;  // Guarded by mutex_, as the next two.
  std::vector<int> connections_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;  // Last: it uses all the others.
};

}  // namespace idempotency::test
