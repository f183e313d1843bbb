#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "absl/status/status.h"

#include "source/store/sqlite/database.h"
#include "source/store/sqlite/records.h"
#include "source/store/store.h"

namespace idempotency::sqlite {

// The database file over the life of a store: opened when first needed, given up when something is
// wrong with it, opened again by and by. One thread.
//
// A missing file is made only before the first success. A file that disappears later took records
// with it that nobody may forget: then the store stays unavailable until there is a file again, or
// the process restarts.
class File {
public:
  // `patience` as for Database: asked while another process holds the lock.
  File(std::string path, std::function<bool()> patience);
  ~File();

  // Opens the file if it is not open, and looks whether it is still the one of that name. After a
  // failure it answers the same for a while, without trying.
  absl::Status ensureOpen();
  // Only after ensureOpen() said yes.
  Database& database() { return *database_; }
  Records& records() { return *records_; }

  // Whether file, log or shared memory have been removed or replaced by name: what is written then
  // would be lost.
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
  absl::Status configure(Database& database);
  absl::Status checkIntegrity(Database& database);
  void close(absl::Status reason);

  const std::string path_;
  const std::function<bool()> patience_;
  bool opened_before_ = false;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Records> records_;  // After the database: goes first.
  std::optional<FileId> log_id_;
  std::optional<FileId> memory_id_;
  int io_errors_ = 0;  // Transactions in a row.

  absl::Status trouble_;  // Why it is not open.
  std::chrono::milliseconds pause_{0};
  Deadline try_again_{};
};

}  // namespace idempotency::sqlite
