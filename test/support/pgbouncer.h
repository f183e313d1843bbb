#pragma once

#include <map>
#include <string>
#include <sys/types.h>

#include "test/support/postgres_server.h"

namespace idempotency::test {

// Debian's PgBouncer before a server, for all its databases. Ends with this process, however that
// ends.
class PgBouncer {
public:
  // `settings` as in pgbouncer.ini; the pool's mode is `session` unless they say otherwise. Throws
  // std::runtime_error if it does not start.
  explicit PgBouncer(const PostgresServer& server,
                     std::map<std::string, std::string> settings = {});
  ~PgBouncer();
  PgBouncer(const PgBouncer&) = delete;
  PgBouncer& operator=(const PgBouncer&) = delete;

  // On the shared server, with a pool that is large enough for every test.
  static PgBouncer& shared();

  // Its socket is in a folder of its own; the port is a part of the socket's name, no more.
  const std::string& folder() const { return folder_; }
  static constexpr int Port = 6432;
  std::string socketPath() const;
  std::string log() const;

  void start();
  void stop(int signal);

private:
  std::string folder_;
  pid_t pid_ = 0;
};

}  // namespace idempotency::test
