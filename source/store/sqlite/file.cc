#include "source/store/sqlite/file.h"

#include <algorithm>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <utility>

#include "fmt/format.h"
#include "source/store/sqlite/schema.h"

namespace idempotency::sqlite {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds FirstPause{20};
constexpr milliseconds LongestPause{2000};

// How long the check for damage at the start may take. A large file is only checked in part; SQLite
// finds other damage when it reads it.
constexpr milliseconds CheckTime{500};

// The log shrinks to this after a burst.
constexpr int64_t LogBytes = int64_t{32} << 20;

// Small, since SQLite looks at every page in it after most commits; what is not in it is a copy
// from the system's cache away. A transaction still keeps its changes in memory until it is this
// large: pages that go to the log early may have to be written twice.
constexpr int CacheKibibytes = 4 * 1024;
constexpr int SpillPages = 4096;

// One transaction that met an I/O error may be bad luck. The connection is kept at first, since the
// next commit writes over what the failed one left in the log.
constexpr int MaxIoErrors = 3;

absl::Status failure(const Database& database, std::string_view doing) {
  return absl::UnavailableError(fmt::format("{}: {}", doing, database.message()));
}

}  // namespace

File::File(std::string path, FileUse use, std::function<bool()> patience, Uptime uptime)
    : path_(std::move(path)),
      use_(use),
      patience_(std::move(patience)),
      uptime_(std::move(uptime)) {}

File::~File() = default;

std::optional<File::FileId> File::identify(const std::string& path) {
  // stat() would also read the times, and after that the next write updates them: each commit would
  // then have to sync the inode, too.
  struct statx found {};
  if (::statx(AT_FDCWD, path.c_str(), AT_STATX_SYNC_AS_STAT, STATX_INO, &found) != 0) {
    return std::nullopt;
  }
  return FileId{.device = ::makedev(found.stx_dev_major, found.stx_dev_minor),
                .inode = found.stx_ino};
}

absl::Status File::ensureOpen() {
  if (database_ != nullptr && hasMoved()) {
    close(absl::UnavailableError(fmt::format("{} was removed or replaced", path_)));
    // There may already be a good file with this name.
    try_again_ = steady_clock::now();
  }
  if (database_ != nullptr) {
    return absl::OkStatus();
  }
  if (steady_clock::now() < try_again_) {
    return trouble_;
  }
  absl::Status opened = open();
  if (!opened.ok()) {
    close(opened);
    return opened;
  }
  opened_before_ = true;
  pause_ = milliseconds(0);
  io_errors_ = 0;
  return absl::OkStatus();
}

absl::Status File::open() {
  const bool create = use_ == FileUse::Store && !opened_before_;
  absl::StatusOr<std::unique_ptr<Database>> database = Database::open(path_, create);
  if (!database.ok()) {
    return database.status();
  }
  database_ = *std::move(database);
  database_->setPatience(patience_);
  if (absl::Status status = prepareTables(*database_); !status.ok()) {
    return status;
  }
  records_ = std::make_unique<Records>(*database_, guard_, uptime_);
  if (database_->error() != SQLITE_OK) {
    return failure(*database_, "the tables are not as expected");
  }
  log_id_ = identify(path_ + "-wal");
  memory_id_ = identify(path_ + "-shm");
  return absl::OkStatus();
}

absl::Status File::prepareTables(Database& database) {
  if (use_ == FileUse::Operator) {
    // First of all, because to configure the connection may change the file.
    absl::Status status = checkSchema(database);
    return status.ok() ? configure(database) : status;
  }
  if (absl::Status status = configure(database); !status.ok()) {
    return status;
  }
  if (absl::Status status = checkIntegrity(database); !status.ok()) {
    return status;
  }
  return migrate(database);
}

absl::Status File::configure(Database& database) {
  if (const std::string mode = database.ask("PRAGMA journal_mode = WAL");
      database.error() == SQLITE_OK && mode != "wal") {
    return absl::UnavailableError("the file system does not support write-ahead logging");
  }
  // Each commit is on disk before it is acknowledged.
  database.run("PRAGMA synchronous = FULL");
  database.run(fmt::format("PRAGMA journal_size_limit = {}", LogBytes));
  database.run(fmt::format("PRAGMA cache_size = -{}", CacheKibibytes));
  database.run(fmt::format("PRAGMA cache_spill = {}", SpillPages));
  database.run("PRAGMA temp_store = MEMORY");
  // Deleted responses are overwritten, unless that would write more pages.
  database.run("PRAGMA secure_delete = FAST");
  database.run("PRAGMA cell_size_check = ON");
  database.run("PRAGMA trusted_schema = OFF");
  constexpr int64_t Full = 2;
  if (database.askNumber("PRAGMA synchronous") != Full && database.error() == SQLITE_OK) {
    return absl::InternalError("SQLite does not wait until data is on disk (PRAGMA synchronous)");
  }
  if (database.error() != SQLITE_OK) {
    return failure(database, fmt::format("cannot use {}", path_));
  }
  return absl::OkStatus();
}

absl::Status File::checkIntegrity(Database& database) {
  const store::Deadline end = steady_clock::now() + CheckTime;
  database.setInterrupt([end] { return steady_clock::now() > end; });
  const std::string found = database.ask("PRAGMA quick_check(1)");
  database.setInterrupt(nullptr);
  if (database.error() == SQLITE_INTERRUPT) {
    database.clearError();
    return absl::OkStatus();
  }
  if (database.error() != SQLITE_OK) {
    return failure(database, fmt::format("cannot check {}", path_));
  }
  if (found != "ok") {
    return absl::DataLossError(fmt::format("{} is damaged: {}", path_, found));
  }
  return absl::OkStatus();
}

bool File::hasMoved() {
  return database_->hasMoved() || identify(path_ + "-wal") != log_id_ ||
         identify(path_ + "-shm") != memory_id_;
}

void File::close(absl::Status reason) {
  records_.reset();
  database_.reset();
  trouble_ = std::move(reason);
  pause_ = std::clamp(pause_ * 2, FirstPause, LongestPause);
  try_again_ = steady_clock::now() + pause_;
}

void File::tidy() {
  if (database_ != nullptr) {
    database_->moveLongLog();
  }
}

void File::onFailure(int error, const std::string& message) {
  switch (error & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_PROTOCOL:
    case SQLITE_FULL:
    case SQLITE_NOMEM:
    case SQLITE_INTERRUPT:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
      return;
    case SQLITE_IOERR:
      if (++io_errors_ < MaxIoErrors) {
        return;
      }
      break;
    default:
      break;
  }
  close(absl::UnavailableError(message));
}

}  // namespace idempotency::sqlite
