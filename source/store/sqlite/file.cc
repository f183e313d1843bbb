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

// How long a start may take to look for damage. A large file is looked at in part; damage elsewhere
// is found by SQLite when it gets there.
constexpr milliseconds CheckTime{500};

// Pages in the log before they are moved into the file. Larger than SQLite's 1000: a page that is
// written again meanwhile is moved once.
constexpr int LogPages = 7000;

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

File::File(std::string path, std::function<bool()> patience)
    : path_(std::move(path)), patience_(std::move(patience)) {}

File::~File() = default;

std::optional<File::FileId> File::identify(const std::string& path) {
  // stat() would also ask for times, and a file whose times somebody has seen gets new ones with
  // its next write: each commit would then have to sync its inode, too.
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
    // The name may stand for a good file already.
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
  absl::StatusOr<std::unique_ptr<Database>> database = Database::open(path_, !opened_before_);
  if (!database.ok()) {
    return database.status();
  }
  database_ = *std::move(database);
  database_->setPatience(patience_);
  if (absl::Status status = configure(*database_); !status.ok()) {
    return status;
  }
  if (absl::Status status = checkIntegrity(*database_); !status.ok()) {
    return status;
  }
  if (absl::Status status = migrate(*database_); !status.ok()) {
    return status;
  }
  records_ = std::make_unique<Records>(*database_);
  if (database_->error() != SQLITE_OK) {
    return failure(*database_, "the tables are not as expected");
  }
  log_id_ = identify(path_ + "-wal");
  memory_id_ = identify(path_ + "-shm");
  return absl::OkStatus();
}

absl::Status File::configure(Database& database) {
  if (const std::string mode = database.ask("PRAGMA journal_mode = WAL");
      database.error() == SQLITE_OK && mode != "wal") {
    return absl::UnavailableError("the file system allows no write-ahead log");
  }
  // Each commit is on the disk before it is acknowledged.
  database.run("PRAGMA synchronous = FULL");
  database.run(fmt::format("PRAGMA journal_size_limit = {}", LogBytes));
  database.run(fmt::format("PRAGMA cache_size = -{}", CacheKibibytes));
  database.run(fmt::format("PRAGMA cache_spill = {}", SpillPages));
  database.run("PRAGMA temp_store = MEMORY");
  // Deleted responses are overwritten where that costs no further page.
  database.run("PRAGMA secure_delete = FAST");
  database.run("PRAGMA cell_size_check = ON");
  database.run("PRAGMA trusted_schema = OFF");
  constexpr int64_t Full = 2;
  if (database.askNumber("PRAGMA synchronous") != Full && database.error() == SQLITE_OK) {
    return absl::InternalError("SQLite does not wait for the disk");
  }
  if (database.error() != SQLITE_OK) {
    return failure(database, fmt::format("cannot use {}", path_));
  }
  return absl::OkStatus();
}

absl::Status File::checkIntegrity(Database& database) {
  const Deadline end = steady_clock::now() + CheckTime;
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
  if (database_ != nullptr && database_->logPages() >= LogPages) {
    database_->moveLog();
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
