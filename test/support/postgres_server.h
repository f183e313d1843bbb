#pragma once

#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

namespace idempotency::test {

// Rows of text; NULL is "NULL".
using TextRows = std::vector<std::vector<std::string>>;

// Runs SQL on a connection of its own; throws std::runtime_error with the server's message.
TextRows query(const std::string& conninfo, const std::string& sql);

// A real PostgreSQL in a folder of its own, reached by a socket in it. POSTGRES_BIN names the
// programs' folder; Debian's 15 by default. Ends with this process, however that ends.
class PostgresServer {
public:
  // Throws std::runtime_error if it does not start. `settings` as in postgresql.conf.
  explicit PostgresServer(std::map<std::string, std::string> settings = {});
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  // Shared by all tests of this process.
  static PostgresServer& shared();

  std::string conninfo(const std::string& database = "postgres") const;
  const std::string& folder() const { return folder_; }
  pid_t pid() const { return pid_; }

  // A database of the caller's own with the schema, and nothing else, in it; its name. Given back,
  // it may be handed out again: whoever changes the schema drops it instead.
  std::string takeDatabase();
  void giveBackDatabase(const std::string& name);
  void dropDatabase(const std::string& name);

  void start();
  void stop(int signal);

private:
  void wait();

  const std::map<std::string, std::string> settings_;
  std::string folder_;
  pid_t pid_ = 0;
  int databases_ = 0;
  bool has_template_ = false;
  std::vector<std::string> free_databases_;
};

}  // namespace idempotency::test
