#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "source/protocol/settings.h"
#include "source/store/sqlite/clock_guard.h"
#include "source/store/sqlite/database.h"
#include "source/store/sqlite/sqlite_store.h"
#include "test/store/store_contract.h"

namespace idempotency::test {

// A folder that goes with this.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

private:
  std::string path_;
};

// An SqliteStore on a file of its own, over the test VFS.
class SqliteRig : public StoreRig {
public:
  explicit SqliteRig(const protocol::LimitSettings& limits = {});
  ~SqliteRig() override;

  const std::string& path() const { return path_; }
  // Another connection to the same file.
  std::unique_ptr<sqlite::Database> connect() const;
  // Runs statements on a connection of their own.
  void run(const std::string& sql) const;
  int64_t askNumber(const std::string& sql) const;
  // The machine's clock is set ahead, or with less than nothing back; no time passes.
  void setClockAhead(std::chrono::milliseconds time);

  // StoreRig
  sqlite::SqliteStore& store() override { return *store_; }
  store::MaintenanceStore& maintenance() override { return *store_; }
  store::Store& other() override;
  std::unique_ptr<store::OperatorStore> openOperator() override;
  void stop() override;
  void start() override;
  void passTime(std::chrono::milliseconds time) override;
  void setRecoveryPoint(const protocol::Identity& identity,
                        const std::string& recovery_point) override;
  std::vector<AuditEntry> audit() override;
  void block() override;
  void unblock() override;
  bool loseNextAnswer() override;

private:
  std::unique_ptr<sqlite::SqliteStore> make() const;
  sqlite::Uptime uptime() const;

  const TemporaryFolder folder_;
  const std::string path_;
  const protocol::LimitSettings limits_;
  // Besides the machine's uptime. Shared with the stores' threads.
  const std::shared_ptr<std::atomic<std::chrono::milliseconds>> passed_ =
      std::make_shared<std::atomic<std::chrono::milliseconds>>(std::chrono::milliseconds(0));
  std::unique_ptr<sqlite::SqliteStore> store_;
  std::unique_ptr<sqlite::SqliteStore> other_;
  std::unique_ptr<sqlite::Database> blocker_;
};

}  // namespace idempotency::test
