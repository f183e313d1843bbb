#pragma once

#include <memory>
#include <string>
#include <vector>

#include "source/protocol/settings.h"
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
  explicit SqliteRig(const LimitSettings& limits = {});
  ~SqliteRig() override;

  const std::string& path() const { return path_; }
  // Another connection to the same file.
  std::unique_ptr<sqlite::Database> connect() const;
  // Runs statements on a connection of their own.
  void run(const std::string& sql) const;
  int64_t askNumber(const std::string& sql) const;

  // StoreRig
  SqliteStore& store() override { return *store_; }
  MaintenanceStore& maintenance() override { return *store_; }
  Store& other() override;
  void stop() override;
  void start() override;
  void passTime(std::chrono::milliseconds time) override;
  void setRecoveryPoint(const Identity& identity, const std::string& recovery_point) override;
  std::vector<AuditEntry> audit() override;
  void block() override;
  void unblock() override;
  bool loseNextAnswer() override;

private:
  std::unique_ptr<SqliteStore> make() const;

  const TemporaryFolder folder_;
  const std::string path_;
  const LimitSettings limits_;
  std::unique_ptr<SqliteStore> store_;
  std::unique_ptr<SqliteStore> other_;
  std::unique_ptr<sqlite::Database> blocker_;
};

}  // namespace idempotency::test
