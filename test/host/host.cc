#include "test/host/host.h"

#include <fmt/format.h>
#include <thread>
#include <utility>

namespace idempotency::test {

using namespace std::chrono_literals;

Host::Host(std::string timeout, const std::string& policy, bool detached)
    : server_(PostgresServer::shared()),
      database_(server_.takeDatabase()),
      timeout_(std::move(timeout)),
      proxy_(server_.folder() + "/.s.PGSQL.2", server_.folder() + "/.s.PGSQL.5432"),
      route_("idempotency", fmt::format(R"({{"policy": {}}})", policy)),
      listener_path_(detached ? server_.folder() + "/runs.sock" : "") {
  fake::resetProcess();
  EXPECT_TRUE(route_.loaded());
  reload();
}

Host::~Host() {
  setConfig(nullptr);
  server_.giveBackDatabase(database_);
}

std::shared_ptr<fake::Config> Host::config() {
  const std::lock_guard lock(mutex_);
  return config_;
}

void Host::reload() {
  const std::string listener =
      listener_path_.empty()
          ? ""
          : fmt::format(R"("private_listener": {{"path": "{}"}},)", listener_path_);
  auto made = std::make_shared<fake::Config>(
      "idempotency", fmt::format(R"({{{} "store": {{"postgres": {{
                                       "conninfo": "{} port=2 connect_timeout=5",
                                       "timeout": "{}"}}}},
                                     "tenant": {{"sources": [{{"fixed": "host"}}]}},
                                     "replay_cache": {{"max_bytes": {}}},
                                     "maintenance": {{"sweep_interval": "1s"}}}})",
                                 listener, server_.conninfo(database_), timeout_,
                                 reloads_++ % 2 == 0 ? 1 << 20 : 0));
  ASSERT_TRUE(made->loaded());
  setConfig(std::move(made));
}

void Host::setConfig(std::shared_ptr<fake::Config> next) {
  const std::lock_guard lock(mutex_);
  config_.swap(next);
}

void Host::loseSessions(int most) {
  query(server_.conninfo(), fmt::format("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                                        "WHERE datname = '{}' LIMIT {}",
                                        database_, most));
}

std::string Host::sql(const std::string& text) {
  return query(server_.conninfo(database_), text).at(0).at(0);
}

void Host::expectNoClaimStays() {
  EXPECT_TRUE(eventually(
      [this] { return sql("SELECT count(*) FROM idempotency.record WHERE state = 1") == "0"; },
      120s))
      << "a claim stays for ever";
}

bool Host::eventually(const std::function<bool()>& condition, std::chrono::seconds most) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) {
      return false;
    }
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

}  // namespace idempotency::test
