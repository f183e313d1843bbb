#include "test/store/postgres/postgres_rig.h"

#include <fmt/format.h>
#include <stdexcept>

#include "source/store/postgres/postgres_operator_store.h"

namespace idempotency::test {
namespace {

constexpr uint32_t Connections = 4;
constexpr int ServerPort = 5432;

std::string fromHex(const std::string& text) {
  std::string bytes;
  for (size_t i = 2; i + 1 < text.size(); i += 2) {  // After "\x".
    bytes.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

postgres::PostgresStoreOptions optionsFor(const std::string& conninfo) {
  postgres::PostgresStoreOptions options;
  options.postgres.conninfo = conninfo;
  options.postgres.connections = Connections;
  options.postgres.timeout = std::chrono::seconds(5);
  return options;
}

std::unique_ptr<postgres::PostgresStore> makeStore(const postgres::PostgresStoreOptions& options) {
  auto store = postgres::PostgresStore::create(options);
  if (!store.ok()) {
    throw std::runtime_error(store.status().ToString());
  }
  return *std::move(store);
}

}  // namespace

std::string literal(const std::string& bytes) {
  std::string text = "'\\x";
  for (const char c : bytes) {
    text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  }
  return text + "'::bytea";
}

PostgresRig::PostgresRig() : PostgresRig(PostgresServer::shared().folder(), ServerPort) {}

PostgresRig::PostgresRig(std::string pooler_folder, int pooler_port)
    : pooler_folder_(std::move(pooler_folder)),
      pooler_port_(pooler_port),
      database_(PostgresServer::shared().takeDatabase()),
      // A port is a part of the socket's name, no more.
      proxy_(PostgresServer::shared().folder() + "/.s.PGSQL.1",
             fmt::format("{}/.s.PGSQL.{}", pooler_folder_, pooler_port_)) {
  start();
}

PostgresRig::~PostgresRig() {
  stop();
  blocker_.reset();
  PostgresServer::shared().giveBackDatabase(database_);
}

store::Store& PostgresRig::other() {
  if (other_ == nullptr) {
    other_ = makeStore(optionsFor(throughPooler()));
  }
  return *other_;
}

std::unique_ptr<store::OperatorStore> PostgresRig::openOperator() {
  auto opened = postgres::PostgresOperatorStore::open({.conninfo = conninfo()});
  if (!opened.ok()) {
    throw std::runtime_error(opened.status().ToString());
  }
  return *std::move(opened);
}

std::string PostgresRig::throughPooler() const {
  return fmt::format("{} host={} port={}", conninfo(), pooler_folder_, pooler_port_);
}

void PostgresRig::stop() {
  store_.reset();
  other_.reset();
}

void PostgresRig::start() {
  start(std::chrono::seconds(5));
}

void PostgresRig::start(std::chrono::milliseconds timeout, bool allow_asynchronous_commit,
                        const std::string& more, uint64_t queue_operations, uint32_t connections) {
  postgres::PostgresStoreOptions options = optionsFor(conninfo() + " port=1 " + more);
  options.postgres.timeout = timeout;
  options.postgres.allow_asynchronous_commit = allow_asynchronous_commit;
  options.queue_operations = queue_operations;
  options.postgres.connections = connections;
  store_ = makeStore(options);
}

void PostgresRig::passTime(std::chrono::milliseconds time) {
  sql(fmt::format(
      "SET jit = off;"
      "UPDATE idempotency.record SET lease_until = lease_until - t, expires_at = expires_at - t,"
      " reap_at = reap_at - t, claimed_at = claimed_at - t, created_at = created_at - t,"
      " completed_at = completed_at - t, reconcile_after = reconcile_after - t"
      " FROM (SELECT interval '{0} ms') AS passed (t);"
      "UPDATE idempotency.unsettled SET since = since - interval '{0} ms',"
      " next_try = next_try - interval '{0} ms';"
      "UPDATE idempotency.tenant_use SET asked_at = asked_at - interval '{0} ms',"
      " counted_at = counted_at - interval '{0} ms';"
      "UPDATE idempotency.response SET expires_at = expires_at - interval '{0} ms';"
      "UPDATE idempotency.leader SET lease_until = lease_until - interval '{0} ms';"
      "UPDATE idempotency.sweep_position SET swept_to = swept_to - interval '{0} ms',"
      " started_at = started_at - interval '{0} ms'",
      time.count()));
}

void PostgresRig::setRecoveryPoint(const protocol::Identity& identity,
                                   const std::string& recovery_point) {
  sql(
      fmt::format("UPDATE idempotency.record SET recovery_point = '{}' WHERE tenant = {} AND"
                  " operation = {} AND key = {}",
                  recovery_point, literal(identity.tenant), literal(identity.operation),
                  literal(identity.key)));
}

std::vector<AuditEntry> PostgresRig::audit() {
  std::vector<AuditEntry> entries;
  for (const auto& row :
       sql("SELECT action, tenant, operation, key, records FROM idempotency.audit ORDER BY id")) {
    AuditEntry entry;
    entry.action = row[0];
    if (row[3] != "NULL") {
      entry.identity = protocol::Identity{fromHex(row[1]), fromHex(row[2]), fromHex(row[3])};
    }
    entry.count = std::stoull(row[4]);
    entries.push_back(std::move(entry));
  }
  return entries;
}

void PostgresRig::block() {
  blocker_.reset(PQconnectdb(conninfo().c_str()));
  const postgres::PqResult result(
      PQexec(blocker_.get(), "BEGIN; LOCK TABLE idempotency.record IN ACCESS EXCLUSIVE MODE"));
  if (PQresultStatus(result.get()) != PGRES_COMMAND_OK) {
    throw std::runtime_error(PQerrorMessage(blocker_.get()));
  }
}

void PostgresRig::unblock() {
  blocker_.reset();
}

void PostgresRig::waitUntilUp() const {
  if (!eventually([this] { return store_->stats().connections_up == Connections; })) {
    throw std::runtime_error("not connected: " + store_->stats().last_error);
  }
}

bool PostgresRig::loseNextAnswer() {
  waitUntilUp();
  proxy_.loseNextAnswer();
  return true;
}

}  // namespace idempotency::test
