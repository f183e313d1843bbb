#include "test/support/pgbouncer.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>

#include "source/store/postgres/wire/pq.h"
#include "test/support/spawn.h"

namespace idempotency::test {
namespace {

constexpr char Program[] = "/usr/sbin/pgbouncer";

}  // namespace

PgBouncer::PgBouncer(const PostgresServer& server, std::map<std::string, std::string> settings)
    : folder_(makeServerFolder()) {
  std::map<std::string, std::string> all = {
      {"listen_addr", ""},
      {"listen_port", std::to_string(Port)},
      {"unix_socket_dir", folder_},
      {"auth_type", "trust"},
      {"auth_file", folder_ + "/users"},
      {"pool_mode", "session"},
      {"default_pool_size", "40"},
      {"max_client_conn", "200"},
      // What the tests of other databases left must not fill the server.
      {"server_idle_timeout", "2"},
  };
  for (const auto& [name, value] : settings) {
    all[name] = value;
  }
  std::ofstream file(folder_ + "/pgbouncer.ini");
  file << fmt::format("[databases]\n* = host={} port=5432\n[pgbouncer]\n", server.folder());
  for (const auto& [name, value] : all) {
    file << name << " = " << value << "\n";
  }
  file.close();
  std::ofstream(folder_ + "/users") << "\"postgres\" \"\"\n";
  start();
}

PgBouncer::~PgBouncer() {
  stop(SIGKILL);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

PgBouncer& PgBouncer::shared() {
  static PgBouncer pooler(PostgresServer::shared());
  return pooler;
}

std::string PgBouncer::socketPath() const {
  return fmt::format("{}/.s.PGSQL.{}", folder_, Port);
}

std::string PgBouncer::log() const {
  return readFile(folder_ + "/log");
}

void PgBouncer::start() {
  std::error_code ignored;
  std::filesystem::remove(socketPath(), ignored);  // A killed one leaves it.
  pid_ = spawn({Program, folder_ + "/pgbouncer.ini"}, folder_, SIGKILL);
  const std::string conninfo =
      fmt::format("host={} port={} user=postgres dbname=postgres", folder_, Port);
  for (int i = 0; i < 600; ++i) {
    if (PQping(conninfo.c_str()) == PQPING_OK) {
      return;
    }
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = 0;
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  throw std::runtime_error("PgBouncer does not start:\n" + log());
}

void PgBouncer::stop(int signal) {
  if (pid_ > 0) {
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
}

}  // namespace idempotency::test
