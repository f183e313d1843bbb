#pragma once

#include <memory>
#include <string>
#include <vector>

#include "source/store/postgres/postgres_store.h"
#include "test/store/store_contract.h"
#include "test/support/faulty_proxy.h"
#include "test/support/postgres_server.h"

namespace idempotency::test {

// A store on a database of its own, on the shared server.
class PostgresRig : public StoreRig {
public:
  PostgresRig();
  // The stores talk to a pooler before that server, of which this is the folder and the port.
  PostgresRig(std::string pooler_folder, int pooler_port);
  ~PostgresRig() override;

  store::Store& store() override { return *store_; }
  store::MaintenanceStore& maintenance() override { return *store_; }
  store::Store& other() override;
  std::unique_ptr<store::OperatorStore> openOperator() override;
  void stop() override;
  void start() override;
  // As start(), with settings of the store; `more` is added to the conninfo.
  void start(std::chrono::milliseconds timeout, bool allow_asynchronous_commit = false,
             const std::string& more = "", uint64_t queue_operations = 20'000,
             uint32_t connections = 4);
  void passTime(std::chrono::milliseconds time) override;
  void setRecoveryPoint(const protocol::Identity& identity,
                        const std::string& recovery_point) override;
  std::vector<AuditEntry> audit() override;
  void block() override;
  void unblock() override;
  bool loseNextAnswer() override;

  // All connections stand.
  void waitUntilUp() const;
  // Between the store and the server.
  FaultyProxy& proxy() { return proxy_; }

  postgres::PostgresStore& postgres() { return *store_; }
  // Straight to the server.
  std::string conninfo() const { return PostgresServer::shared().conninfo(database_); }
  TextRows sql(const std::string& text) const { return query(conninfo(), text); }

private:
  // What other() connects to.
  std::string throughPooler() const;

  const std::string pooler_folder_;  // The server's own: there is no pooler.
  const int pooler_port_;
  std::string database_;
  FaultyProxy proxy_;
  std::unique_ptr<postgres::PostgresStore> store_;
  std::unique_ptr<postgres::PostgresStore> other_;
  postgres::PqConnection blocker_;
};

// A bytea literal.
std::string literal(const std::string& bytes);

}  // namespace idempotency::test
