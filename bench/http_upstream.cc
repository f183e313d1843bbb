// The service behind Envoy in benchmarks: answers 201 with a JSON body to every request, on one
// thread, and does nothing else, but for the payments.
//
//   http_upstream PORT [CONNINFO]
//
//   POST /…/N      answers with N bytes
//   POST /paid/N   inserts a row into the table `payment` of CONNINFO's database, then answers
//   POST /own/N    the same; the transaction also completes the request's record with the response
//   POST /hold/…   is not answered before GET /release, which answers all of them
//   GET /held      how many wait
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <set>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/http1_head.h"
#include "bench/payments.h"
#include "bench/watched.h"

namespace idempotency::bench {
namespace {

std::string message(int status, std::string_view body) {
  return fmt::format(
      "HTTP/1.1 {} OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{}", status,
      body.size(), body);
}

class Upstream;

struct Client : Watched {
  Client(Upstream& upstream, int socket) : upstream(upstream), socket(socket) {}
  void onReady(uint32_t events) override;

  Upstream& upstream;
  int socket;
  std::string input;
  std::string output;    // What the socket did not take yet.
  bool blocked = false;  // Waits for room in the socket.
  bool paying = false;   // A transaction refers to it.
  bool gone = false;     // To be deleted after that.
};

class Upstream {
public:
  explicit Upstream(uint16_t port) : poll_(epoll_create1(0)), listener_(listenOn(port)) {}

  bool listening() const { return listener_ >= 0; }
  bool connect(const char* conninfo) {
    payments_ = std::make_unique<Payments>(poll_, conninfo);
    return payments_->connected();
  }

  [[noreturn]] void run() {
    watch(EPOLL_CTL_ADD, listener_, EPOLLIN, nullptr);
    epoll_event events[256];
    for (;;) {
      const int count = epoll_wait(poll_, events, std::size(events), -1);
      for (int i = 0; i < count; ++i) {
        if (events[i].data.ptr == nullptr) {
          acceptAll();
        } else {
          static_cast<Watched*>(events[i].data.ptr)->onReady(events[i].events);
        }
      }
    }
  }

  void onReady(Client& client) {
    char buffer[65536];
    const ssize_t size = recv(client.socket, buffer, sizeof(buffer), 0);
    if (size == 0 || (size < 0 && errno != EAGAIN)) {
      held_.erase(&client);
      close(client.socket);
      client.gone = true;
      if (!client.paying) {
        delete &client;
      }
      return;
    }
    if (size > 0) {
      client.input.append(buffer, static_cast<size_t>(size));
      answerAll(client);
    }
    flush(client);
  }

private:
  static int listenOn(uint16_t port) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    const int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
        listen(socket, 4096) != 0) {
      return -1;
    }
    return socket;
  }

  void watch(int operation, int socket, uint32_t what, Client* client) {
    bench::watch(poll_, operation, socket, what, client);
  }

  void acceptAll() {
    for (;;) {
      const int socket = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK);
      if (socket < 0) {
        return;
      }
      const int on = 1;
      setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      watch(EPOLL_CTL_ADD, socket, EPOLLIN, new Client(*this, socket));
    }
  }

  void answerAll(Client& client) {
    for (;;) {
      const auto head = Http1Head::find(client.input);
      if (!head) {
        return;
      }
      const size_t whole = head->size() + head->contentLength().value_or(0);
      if (client.input.size() < whole) {
        return;
      }
      answer(client, *head);
      client.input.erase(0, whole);
    }
  }

  void answer(Client& client, const Http1Head& head) {
    const std::string_view path = head.secondWord();
    if (path.starts_with("/paid/") || path.starts_with("/own/")) {
      pay(client, path, head.header("idempotency-attempt").value_or(""));
    } else if (path.starts_with("/hold/")) {
      held_.insert(&client);
    } else if (path == "/held") {
      client.output += message(200, fmt::format("{}", held_.size()));
    } else if (path == "/release") {
      for (Client* const waiting : held_) {
        waiting->output += ofSize(200);
        flush(*waiting);
      }
      held_.clear();
      client.output += message(200, "{}");
    } else {
      client.output += ofSize(sizeIn(path));
    }
  }

  // One request at a time comes on a connection.
  void pay(Client& client, std::string_view path, std::string_view attempt) {
    const std::string& response = ofSize(sizeIn(path));
    client.paying = true;
    auto done = [this, &client, &response](bool committed) {
      client.paying = false;
      if (client.gone) {
        delete &client;
        return;
      }
      client.output += committed ? response : message(500, "{}");
      flush(client);
    };
    if (path.starts_with("/own/")) {
      const std::string_view body =
          std::string_view(response).substr(response.find("\r\n\r\n") + 4);
      payments_->insertAndComplete(attempt, body, std::move(done));
    } else {
      payments_->insert(attempt, std::move(done));
    }
  }

  static size_t sizeIn(std::string_view path) {
    size_t size = 0;
    std::from_chars(path.begin() + path.rfind('/') + 1, path.end(), size);
    return size;
  }

  const std::string& ofSize(size_t size) {
    std::string& text = answers_[size];
    if (text.empty()) {
      const std::string_view around = R"({"id":""})";
      const size_t filling = size > around.size() ? size - around.size() : 0;
      text = message(201, fmt::format(R"({{"id":"{}"}})", std::string(filling, 'x')));
    }
    return text;
  }

  void flush(Client& client) {
    while (!client.output.empty()) {
      const ssize_t size =
          send(client.socket, client.output.data(), client.output.size(), MSG_NOSIGNAL);
      if (size <= 0) {
        break;
      }
      client.output.erase(0, static_cast<size_t>(size));
    }
    const bool blocked = !client.output.empty();
    if (blocked != client.blocked) {
      client.blocked = blocked;
      watch(EPOLL_CTL_MOD, client.socket, EPOLLIN | (blocked ? EPOLLOUT : 0U), &client);
    }
  }

  const int poll_;
  const int listener_;
  std::unique_ptr<Payments> payments_;
  std::set<Client*> held_;
  std::map<size_t, std::string> answers_;
};

void Client::onReady(uint32_t) {
  upstream.onReady(*this);
}

}  // namespace
}  // namespace idempotency::bench

int main(int count, char** words) {
  if (count != 2 && count != 3) {
    std::fprintf(stderr, "usage: http_upstream PORT [CONNINFO]\n");
    return 2;
  }
  idempotency::bench::Upstream upstream(static_cast<uint16_t>(std::atoi(words[1])));
  if (!upstream.listening()) {
    std::fprintf(stderr, "http_upstream: port %s is taken\n", words[1]);
    return 1;
  }
  if (count == 3 && !upstream.connect(words[2])) {
    return 1;
  }
  upstream.run();
}
