#include "test/support/postgres_server.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>

#include "source/store/postgres/schema/migrate.h"
#include "source/store/postgres/wire/pq.h"
#include "test/support/spawn.h"

namespace idempotency::test {
namespace {

using postgres::PqConnection;
using postgres::PqResult;

std::string binary(const std::string& name) {
  const char* const folder = std::getenv("POSTGRES_BIN");
  return std::string(folder != nullptr ? folder : "/usr/lib/postgresql/15/bin") + "/" + name;
}

}  // namespace

TextRows query(const std::string& conninfo, const std::string& sql) {
  const PqConnection connection(PQconnectdb(conninfo.c_str()));
  const PqResult result(PQexec(connection.get(), sql.c_str()));
  const ExecStatusType status = PQresultStatus(result.get());
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
    throw std::runtime_error(fmt::format("{}\n{}{}", sql, PQerrorMessage(connection.get()),
                                         PQresultErrorMessage(result.get())));
  }
  TextRows rows;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    auto& values = rows.emplace_back();
    for (int column = 0; column < PQnfields(result.get()); ++column) {
      values.emplace_back(PQgetisnull(result.get(), row, column) != 0
                              ? "NULL"
                              : PQgetvalue(result.get(), row, column));
    }
  }
  return rows;
}

PostgresServer::PostgresServer(std::map<std::string, std::string> settings)
    : settings_(std::move(settings)) {
  folder_ = makeServerFolder();
  int status = 0;
  const pid_t initdb = spawn({binary("initdb"), "-D", folder_ + "/data", "-U", "postgres", "-A",
                              "trust", "--encoding=UTF8", "--locale=C", "--no-sync"},
                             folder_, SIGKILL);
  waitpid(initdb, &status, 0);
  if (status != 0) {
    throw std::runtime_error("initdb failed:\n" + readFile(folder_ + "/log"));
  }
  start();
}

PostgresServer::~PostgresServer() {
  stop(SIGQUIT);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

PostgresServer& PostgresServer::shared() {
  static PostgresServer server;
  return server;
}

void PostgresServer::start() {
  std::map<std::string, std::string> all = {
      {"listen_addresses", ""},
      {"unix_socket_directories", folder_},
      {"max_connections", "100"},
      {"shared_buffers", "32MB"},
  };
  for (const auto& [name, value] : settings_) {
    all[name] = value;
  }
  std::vector<std::string> command = {binary("postgres"), "-D", folder_ + "/data"};
  for (const auto& [name, value] : all) {
    command.insert(command.end(), {"-c", name + "=" + value});
  }
  pid_ = spawn(command, folder_, SIGQUIT);
  wait();
}

void PostgresServer::wait() {
  for (int i = 0; i < 600; ++i) {
    if (PQping(conninfo().c_str()) == PQPING_OK) {
      return;
    }
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = 0;
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  throw std::runtime_error("PostgreSQL does not start:\n" + readFile(folder_ + "/log"));
}

void PostgresServer::stop(int signal) {
  if (pid_ > 0) {
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
}

std::string PostgresServer::conninfo(const std::string& database) const {
  return fmt::format("host={} port=5432 user=postgres dbname={}", folder_, database);
}

std::string PostgresServer::takeDatabase() {
  if (!free_databases_.empty()) {
    std::string name = free_databases_.back();
    free_databases_.pop_back();
    return name;
  }
  if (!has_template_) {
    query(conninfo(), "CREATE DATABASE prepared");
    const absl::Status status = postgres::migrate(
        {.conninfo = conninfo("prepared"), .password = {}, .to = {}}, [](std::string_view) {});
    if (!status.ok()) {
      throw std::runtime_error(status.ToString());
    }
    has_template_ = true;
  }
  std::string name = fmt::format("test{}", ++databases_);
  query(conninfo(), fmt::format("CREATE DATABASE {} TEMPLATE prepared", name));
  return name;
}

void PostgresServer::giveBackDatabase(const std::string& name) {
  // Far quicker than a new database.
  query(conninfo(name),
        "DELETE FROM idempotency.record; DELETE FROM idempotency.response;"
        "DELETE FROM idempotency.audit; DELETE FROM idempotency.leader;"
        "DELETE FROM idempotency.sweep_watch; DELETE FROM idempotency.tenant_use;"
        "UPDATE idempotency.sweep_position SET swept_to = '-infinity', started_at = now()");
  free_databases_.push_back(name);
}

void PostgresServer::dropDatabase(const std::string& name) {
  query(conninfo(), fmt::format("DROP DATABASE {} WITH (FORCE)", name));
}

}  // namespace idempotency::test
