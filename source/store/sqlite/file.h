#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "absl/status/status.h"

#include "source/store/sqlite/clock_guard.h"
#include "source/store/sqlite/database.h"
#include "source/store/sqlite/records.h"
#include "source/store/store.h"

namespace idempotency::sqlite {

// Who opens the file.
enum class FileUse : uint8_t {
  Store,     // Creates the file and its tables, and brings them up to date.
  Operator,  // Changes nothing by opening it: refuses a file without this build's tables.
};

// The database file of a store: opened on first use, closed when something is wrong with it, and
// opened again after a pause. One thread.
//
// A missing file is created only before the first success. If the file disappears later, records
// are lost that must not be forgotten: then the store stays unavailable until there is a file
// again, or the process restarts.
class File {
public:
  // `patience` as for Database: called while another process holds the lock.
  File(std::string path, FileUse use, std::function<bool()> patience, Uptime uptime);
  ~File();

  // Opens the file if it is not open, and checks that it still has its name. After a failure, it
  // returns the same error for a while, without trying.
  absl::Status ensureOpen();
  // Only after ensureOpen() succeeded.
  Database& database() { return *database_; }
  Records& records() { return *records_; }

  // Whether the file, the log or the shared memory file was removed or replaced: later writes would
  // be lost.
  bool hasMoved();

  // What a failed transaction means for the connection: some errors need a new one.
  void onFailure(int error, const std::string& message);
  void onSuccess() { io_errors_ = 0; }

  // Moves the log into the file if it has grown long.
  void tidy();

private:
  struct FileId {
    dev_t device = 0;
    ino_t inode = 0;
    bool operator==(const FileId&) const = default;
  };
  static std::optional<FileId> identify(const std::string& path);

  absl::Status open();
  // Finds the tables as this build knows them, or makes them so.
  absl::Status prepareTables(Database& database);
  absl::Status configure(Database& database);
  absl::Status checkIntegrity(Database& database);
  void close(absl::Status reason);

  const std::string path_;
  const FileUse use_;
  const std::function<bool()> patience_;
  const Uptime uptime_;
  ClockGuard guard_;  // Of the machine's clock: outlives a connection.
  bool opened_before_ = false;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Records> records_;  // After the database: goes first.
  std::optional<FileId> log_id_;
  std::optional<FileId> memory_id_;
  int io_errors_ = 0;  // Transactions in a row.

  absl::Status trouble_;  // Why it is not open.
  std::chrono::milliseconds pause_{0};
  store::Deadline try_again_{};
};

}  // namespace idempotency::sqlite
