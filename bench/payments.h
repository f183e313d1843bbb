#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace idempotency::bench {

// The business of the upstream in bench/run own: each request inserts a row of a table, in a
// transaction of its own, and may complete its record in it. Transactions are sent one behind the
// other on a few connections. One thread.
class Payments {
public:
  using Done = std::function<void(bool committed)>;

  // `poll`: the epoll that calls the connections.
  Payments(int poll, const char* conninfo);
  ~Payments();

  // Whether every connection is there.
  bool connected() const { return !connections_.empty(); }

  void insert(std::string_view attempt, Done done);
  // Completes the record with 201, a JSON body, and its content type.
  void insertAndComplete(std::string_view attempt, std::string_view body, Done done);

private:
  class Connection;

  Connection& next();

  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace idempotency::bench
