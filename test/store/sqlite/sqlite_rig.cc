#include "test/store/sqlite/sqlite_rig.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "gtest/gtest.h"

#include "source/store/sqlite/sqlite_operator_store.h"
#include "test/store/sqlite/test_vfs.h"

namespace idempotency::test {
namespace {

using sqlite::Blob;
using sqlite::Database;
using sqlite::Query;
using sqlite::Statement;
using sqlite::Text;

std::string makeFolder() {
  const char* const base = std::getenv("TEST_TMPDIR");
  std::string path = std::string(base == nullptr ? "/tmp" : base) + "/sqlite-XXXXXX";
  EXPECT_NE(mkdtemp(path.data()), nullptr);
  return path;
}

}  // namespace

TemporaryFolder::TemporaryFolder() : path_(makeFolder()) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

SqliteRig::SqliteRig(const protocol::LimitSettings& limits)
    : path_(folder_.path() + "/records.db"), limits_(limits) {
  test_vfs::install();
  test_vfs::reset();
  start();
}

SqliteRig::~SqliteRig() {
  stop();
  blocker_.reset();
  test_vfs::reset();
}

sqlite::Uptime SqliteRig::uptime() const {
  return [passed = passed_] { return sqlite::machineUptime() + passed->load(); };
}

std::unique_ptr<store::OperatorStore> SqliteRig::openOperator() {
  auto opened = sqlite::openOperatorStore(path_, LongTime, uptime());
  EXPECT_TRUE(opened.ok()) << opened.status();
  return *std::move(opened);
}

std::unique_ptr<sqlite::SqliteStore> SqliteRig::make() const {
  auto store = sqlite::SqliteStore::create({.path = path_}, limits_, uptime());
  EXPECT_TRUE(store.ok()) << store.status();
  // The file is there when this comes back.
  Answer<store::LookUpResult> answer;
  (*store)->lookUp({"none", "none", "none"}, soon(), answer.callback());
  const store::LookUpResult result = answer.get();
  if (const auto* unavailable = std::get_if<store::Unavailable>(&result)) {
    ADD_FAILURE() << unavailable->reason;
  }
  return *std::move(store);
}

std::unique_ptr<Database> SqliteRig::connect() const {
  auto database = Database::open(path_, false);
  EXPECT_TRUE(database.ok()) << database.status();
  (*database)->setPatience([end = soon()] { return std::chrono::steady_clock::now() < end; });
  return *std::move(database);
}

void SqliteRig::run(const std::string& sql) const {
  const std::unique_ptr<Database> database = connect();
  EXPECT_TRUE(database->run(sql)) << database->message();
}

int64_t SqliteRig::askNumber(const std::string& sql) const {
  const std::unique_ptr<Database> database = connect();
  const int64_t number = database->askNumber(sql);
  EXPECT_EQ(database->error(), SQLITE_OK) << database->message();
  return number;
}

store::Store& SqliteRig::other() {
  if (other_ == nullptr) {
    other_ = make();
  }
  return *other_;
}

void SqliteRig::stop() {
  store_.reset();
  other_.reset();
}

void SqliteRig::start() {
  store_ = make();
}

void SqliteRig::passTime(std::chrono::milliseconds time) {
  passed_->store(passed_->load() + time);
  test_vfs::passTime(time);
}

void SqliteRig::setClockAhead(std::chrono::milliseconds time) {
  test_vfs::passTime(time);
}

void SqliteRig::setRecoveryPoint(const protocol::Identity& identity,
                                 const std::string& recovery_point) {
  const std::unique_ptr<Database> database = connect();
  Statement statement(*database,
                      "UPDATE record SET recovery_point = ?4 "
                      "WHERE tenant = ?1 AND operation = ?2 AND key = ?3");
  EXPECT_EQ(Query(statement, Blob{identity.tenant}, Blob{identity.operation}, Blob{identity.key},
                  Text{recovery_point})
                .run(),
            1)
      << database->message();
}

std::vector<AuditEntry> SqliteRig::audit() {
  const std::unique_ptr<Database> database = connect();
  Statement statement(*database,
                      "SELECT action, tenant, operation, key, records FROM audit ORDER BY id");
  Query row(statement);
  std::vector<AuditEntry> all;
  while (row.next()) {
    AuditEntry entry{row.bytes(0), std::nullopt, static_cast<uint64_t>(row.integer(4))};
    if (!row.isNull(1)) {
      entry.identity = protocol::Identity{row.bytes(1), row.bytes(2), row.bytes(3)};
    }
    all.push_back(std::move(entry));
  }
  return all;
}

void SqliteRig::block() {
  blocker_ = connect();
  EXPECT_TRUE(blocker_->run("BEGIN IMMEDIATE")) << blocker_->message();
}

void SqliteRig::unblock() {
  blocker_.reset();
}

bool SqliteRig::loseNextAnswer() {
  // The commit is in the log, but whether it is on the disk nobody knows.
  auto lost = std::make_shared<std::atomic<bool>>(false);
  test_vfs::setFault([lost](test_vfs::Call call, std::string_view file) {
    const bool hit = call == test_vfs::Call::Sync && file == "records.db-wal";
    return hit && !lost->exchange(true) ? SQLITE_IOERR_FSYNC : SQLITE_OK;
  });
  return true;
}

}  // namespace idempotency::test
