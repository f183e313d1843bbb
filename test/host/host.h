#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "gtest/gtest.h"

#include "test/host/execution_log.h"
#include "test/support/fake_envoy.h"
#include "test/support/faulty_proxy.h"
#include "test/support/postgres_server.h"

namespace idempotency::test {

// The real filter on the real PostgreSQL store, in a fake Envoy whose workers are threads of the
// test. For the sanitizers, which cannot be loaded into Envoy itself. The thread that makes it
// plays Envoy's main thread.
class Host : public ::testing::Test {
protected:
  // `timeout`: the store's; `policy`: of the one route; `detached`: whether there is a private
  // listener; the first two in the words of the config.
  Host(std::string timeout, const std::string& policy, bool detached = false);
  ~Host() override;

  // The config that new streams get. Streams of older ones keep theirs; the last of them destroys
  // it, on its worker. Any thread.
  std::shared_ptr<fake::Config> config();
  // Another config takes over; what it has to do with the store differs from the one before. Main
  // thread.
  void reload();

  // Ends so many of the server's sessions.
  void loseSessions(int most);
  std::string sql(const std::string& text);
  // Whatever was cut off: somebody settles it, at the latest the sweeper when the lease is over.
  void expectNoClaimStays();

  // False: not in time.
  static bool eventually(const std::function<bool()>& condition, std::chrono::seconds most);

private:
  void setConfig(std::shared_ptr<fake::Config> next);

  PostgresServer& server_;
  const std::string database_;
  const std::string timeout_;

protected:
  FaultyProxy proxy_;  // Between the store and the server.
  ExecutionLog log_;
  const fake::Route route_;
  const std::string listener_path_;  // Empty: there is no private listener.

private:
  int reloads_ = 0;
  std::mutex mutex_;
  std::shared_ptr<fake::Config> config_;  // Guarded by mutex_.
};

}  // namespace idempotency::test
