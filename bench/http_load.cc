// Sends POST requests with idempotency keys to a server on this machine as fast as it answers: each
// connection sends its next request when the answer to the last has come. Prints one line of JSON.
// Ends with 1 if any answer is not as expected: such a run says nothing about speed.
//
//   http_load --port N [--name VALUE]...      names are those of PlanOptions
#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "bench/http_connection.h"
#include "bench/http_plan.h"

namespace idempotency::bench {
namespace {

using namespace std::chrono_literals;

// How long answers may take after the last request.
constexpr auto Patience = 30s;

int connectTo(uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    close(socket);
    return -1;
  }
  int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ioctl(socket, FIONBIO, &on);
  return socket;
}

class Load {
public:
  explicit Load(Plan& plan) : plan_(plan), poll_(epoll_create1(0)) {}
  ~Load() { close(poll_); }

  bool connectAll() {
    const PlanOptions& options = plan_.options();
    for (int i = 0; i < options.connections; ++i) {
      const int socket = connectTo(options.port);
      if (socket < 0) {
        plan_.onFailure(fmt::format("cannot connect to port {}", options.port));
        return false;
      }
      connections_.push_back(options.http2 ? makeHttp2Connection(plan_, socket)
                                           : makeHttp1Connection(plan_, socket));
      watch(EPOLL_CTL_ADD, *connections_.back());
    }
    return true;
  }

  void run() {
    plan_.start();
    for (const auto& connection : connections_) {
      connection->start();
      watch(EPOLL_CTL_MOD, *connection);
    }
    epoll_event events[256];
    while (!plan_.failed() && plan_.outstanding() > 0) {
      const int count = epoll_wait(poll_, events, std::size(events), 100);
      for (int i = 0; i < count; ++i) {
        auto& connection = *static_cast<HttpConnection*>(events[i].data.ptr);
        const bool was_blocked = connection.blocked();
        connection.onReady();
        if (connection.blocked() != was_blocked) {
          watch(EPOLL_CTL_MOD, connection);
        }
      }
      if (Clock::now() > plan_.end() + Patience) {
        plan_.onFailure(fmt::format("{} requests without an answer", plan_.outstanding()));
      }
    }
  }

private:
  void watch(int operation, HttpConnection& connection) {
    epoll_event event{};
    event.events = EPOLLIN | (connection.blocked() ? EPOLLOUT : 0U);
    event.data.ptr = &connection;
    epoll_ctl(poll_, operation, connection.socket(), &event);
  }

  Plan& plan_;
  const int poll_;
  std::vector<std::unique_ptr<HttpConnection>> connections_;
};

bool readOptions(int count, char** words, PlanOptions& options) {
  const std::map<std::string_view, std::function<void(const char*)>> known = {
      {"--port", [&](const char* word) { options.port = static_cast<uint16_t>(std::atoi(word)); }},
      {"--path", [&](const char* word) { options.path = word; }},
      {"--body", [&](const char* word) { options.body = std::strtoull(word, nullptr, 10); }},
      {"--connections", [&](const char* word) { options.connections = std::atoi(word); }},
      {"--streams", [&](const char* word) { options.streams = std::atoi(word); }},
      {"--http2", [&](const char* word) { options.http2 = std::atoi(word) != 0; }},
      {"--seconds", [&](const char* word) { options.seconds = std::atof(word); }},
      {"--count", [&](const char* word) { options.count = std::strtoull(word, nullptr, 10); }},
      {"--keyed", [&](const char* word) { options.keyed = std::atoi(word) != 0; }},
      {"--prefix", [&](const char* word) { options.prefix = word; }},
      {"--pool", [&](const char* word) { options.pool = std::strtoull(word, nullptr, 10); }},
      {"--duplicates", [&](const char* word) { options.duplicates = std::atof(word); }},
      {"--status", [&](const char* word) { options.status = std::atoi(word); }},
      {"--header", [&](const char* word) { options.header = word; }},
  };
  for (int i = 1; i < count; i += 2) {
    const auto found = known.find(words[i]);
    if (found == known.end() || i + 1 == count) {
      std::fprintf(stderr, "http_load: what is %s?\n", words[i]);
      return false;
    }
    found->second(words[i + 1]);
  }
  return options.port != 0 && (options.http2 || options.streams == 1);
}

int run(int count, char** words) {
  PlanOptions options;
  if (!readOptions(count, words, options)) {
    std::fprintf(stderr, "usage: http_load --port N [--name VALUE]...\n");
    return 2;
  }
  Plan plan(options);
  Load load(plan);
  if (load.connectAll()) {
    load.run();
  }
  std::printf("%s\n", plan.report().c_str());
  return plan.failed() ? 1 : 0;
}

}  // namespace
}  // namespace idempotency::bench

int main(int count, char** words) {
  return idempotency::bench::run(count, words);
}
