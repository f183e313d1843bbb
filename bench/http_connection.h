#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "bench/http_plan.h"

namespace idempotency::bench {

// One client connection on a non-blocking socket. Keeps as many requests under way as the plan
// allows.
class HttpConnection {
public:
  HttpConnection(Plan& plan, int socket) : plan_(plan), socket_(socket) {}
  virtual ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  int socket() const { return socket_; }

  // Sends the first requests.
  virtual void start() = 0;
  // Reads and writes what the socket allows. Tells the plan about answers and failures.
  void onReady();
  // Whether it waits for room in the socket.
  bool blocked() const { return sent_ < output_.size(); }

protected:
  // Takes bytes that came.
  virtual void onData(std::string_view data) = 0;
  // Writes `output_` as far as the socket takes it.
  void flush();

  Plan& plan_;
  std::string output_;  // The first `sent_` bytes are on their way.

private:
  const int socket_;
  size_t sent_ = 0;
};

std::unique_ptr<HttpConnection> makeHttp1Connection(Plan& plan, int socket);
std::unique_ptr<HttpConnection> makeHttp2Connection(Plan& plan, int socket);

}  // namespace idempotency::bench
