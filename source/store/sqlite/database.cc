#include "source/store/sqlite/database.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "fmt/format.h"
#include "source/store/sqlite/gathering_vfs.h"

namespace idempotency::sqlite {
namespace {

// How many steps of SQLite's virtual machine pass between two questions of an interrupt.
constexpr int StepsPerQuestion = 10'000;

// Pages in the log before they are moved into the file. More than SQLite's 1000, because a page
// that is written several times is then moved only once.
constexpr int LongLog = 7000;

// The pause between two tries for a lock. Short, since the holder of the lock is often another
// store that lets go of it only for moments; longer the longer it lasts.
std::chrono::microseconds lockPause(int tries) {
  constexpr int MaxTries = 20;
  return std::chrono::microseconds(100) * (1 + (tries < MaxTries ? tries : MaxTries));
}

int onBusy(void* patience, int tries) {
  const auto& still_waits = *static_cast<const std::function<bool()>*>(patience);
  if (!still_waits || !still_waits()) {
    return 0;
  }
  std::this_thread::sleep_for(lockPause(tries));
  return 1;
}

int onCommit(void* log_pages, sqlite3*, const char*, int pages) {
  *static_cast<int*>(log_pages) = pages;
  return SQLITE_OK;
}

int onProgress(void* interrupt) {
  return (*static_cast<const std::function<bool()>*>(interrupt))() ? 1 : 0;
}

// Makes the file so that only its user can read it; SQLite would take what the umask allows. Only
// where there was none: closing a descriptor of a file that another connection of this process has
// open would drop that one's locks.
absl::Status makeFile(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file >= 0) {
    ::close(file);
    return absl::OkStatus();
  }
  if (errno == EEXIST) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(fmt::format("cannot create {}: {}", path, std::strerror(errno)));
}

}  // namespace

// --- Database

Database::Database(sqlite3* handle) : handle_(handle) {
  sqlite3_extended_result_codes(handle_, 1);
  sqlite3_busy_handler(handle_, onBusy, &patience_);
  // In place of SQLite's own, which moves the log before the commit returns.
  sqlite3_wal_hook(handle_, onCommit, &log_pages_);
}

Database::~Database() {
  sqlite3_close_v2(handle_);
}

absl::StatusOr<std::unique_ptr<Database>> Database::open(const std::string& path, bool create) {
  if (create) {
    if (absl::Status made = makeFile(path); !made.ok()) {
      return made;
    }
  }
  sqlite3* handle = nullptr;
  // The path is absolute, so SQLite cannot take it for a URI.
  const int code = sqlite3_open_v2(path.c_str(), &handle,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                                       SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE,
                                   gatheringVfs());
  if (code != SQLITE_OK) {
    const int system = handle == nullptr ? 0 : sqlite3_system_errno(handle);
    sqlite3_close_v2(handle);
    return absl::UnavailableError(fmt::format(
        "cannot open {}: {}", path, system != 0 ? std::strerror(system) : sqlite3_errstr(code)));
  }
  auto database = std::unique_ptr<Database>(new Database(handle));
  // SQLite silently opens for reading what it may not write.
  if (sqlite3_db_readonly(handle, "main") != 0) {
    return absl::UnavailableError(fmt::format("{} is read-only", path));
  }
  return database;
}

void Database::clearError() {
  error_ = SQLITE_OK;
  message_.clear();
}

bool Database::note(int code) {
  if (code != SQLITE_OK && code != SQLITE_ROW && code != SQLITE_DONE && error_ == SQLITE_OK) {
    error_ = code;
    message_ = fmt::format("{} (SQLite {})", sqlite3_errmsg(handle_), code);
  }
  return error_ == SQLITE_OK;
}

bool Database::run(const std::string& sql) {
  return error_ == SQLITE_OK && note(sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr));
}

std::string Database::ask(const std::string& sql) {
  Statement statement(*this, sql);
  Query query(statement);
  return query.next() ? query.bytes(0) : std::string();
}

int64_t Database::askNumber(const std::string& sql) {
  Statement statement(*this, sql);
  Query query(statement);
  return query.next() ? query.integer(0) : 0;
}

void Database::rollBack() {
  if (inTransaction()) {
    // Its own failure does not matter: the error is known, and nothing was committed.
    sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  clearError();
}

bool Database::mayBeCommitted(int error) {
  switch (error & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_FULL:
      return false;
    default:
      return true;
  }
}

void Database::setInterrupt(std::function<bool()> interrupt) {
  interrupt_ = std::move(interrupt);
  if (interrupt_) {
    sqlite3_progress_handler(handle_, StepsPerQuestion, onProgress, &interrupt_);
  } else {
    sqlite3_progress_handler(handle_, 0, nullptr, nullptr);
  }
}

bool Database::hasMoved() {
  int moved = 0;
  return sqlite3_file_control(handle_, "main", SQLITE_FCNTL_HAS_MOVED, &moved) != SQLITE_OK ||
         moved != 0;
}

void Database::moveLongLog() {
  if (log_pages_ >= LongLog) {
    moveLog();
  }
}

void Database::moveLog() {
  if (sqlite3_wal_checkpoint_v2(handle_, "main", SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr) ==
      SQLITE_OK) {
    log_pages_ = 0;
  }
}

// --- Statement

Statement::Statement(Database& database, std::string_view sql) : database_(database) {
  if (database.error() != SQLITE_OK) {
    return;
  }
  sqlite3_stmt* statement = nullptr;
  database.note(sqlite3_prepare_v3(database.handle(), sql.data(), static_cast<int>(sql.size()),
                                   SQLITE_PREPARE_PERSISTENT, &statement, nullptr));
  statement_.reset(statement);
}

// --- Query

Query::Query(Statement& statement, const std::vector<Value>& values)
    : database_(statement.database_), statement_(statement.statement_.get()) {
  int index = 0;
  for (const Value& value : values) {
    std::visit([&](const auto& content) { bind(++index, content); }, value);
  }
}

Query::~Query() {
  if (statement_ != nullptr) {
    sqlite3_reset(statement_);  // Repeats the code of the last step, which was noted.
  }
}

bool Query::next() {
  if (database_.error() != SQLITE_OK || statement_ == nullptr) {
    return false;
  }
  const int code = sqlite3_step(statement_);
  return database_.note(code) && code == SQLITE_ROW;
}

int64_t Query::run() {
  next();
  return database_.error() == SQLITE_OK ? database_.changes() : 0;
}

std::optional<int64_t> Query::optionalInteger(int column) const {
  return isNull(column) ? std::nullopt : std::optional<int64_t>(integer(column));
}

std::string Query::bytes(int column) const {
  const void* const data = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  if (data == nullptr) {
    // Null, or empty, or no memory.
    if (sqlite3_errcode(database_.handle()) == SQLITE_NOMEM) {
      database_.note(SQLITE_NOMEM);
    }
    return {};
  }
  return {static_cast<const char*>(data), static_cast<size_t>(size)};
}

void Query::bind(int index, int64_t value) {
  if (statement_ != nullptr) {
    database_.note(sqlite3_bind_int64(statement_, index, value));
  }
}

void Query::bind(int index, const std::optional<int64_t>& value) {
  if (value.has_value()) {
    bind(index, *value);
  } else if (statement_ != nullptr) {
    database_.note(sqlite3_bind_null(statement_, index));
  }
}

void Query::bind(int index, const Blob& value) {
  if (statement_ == nullptr) {
    return;
  }
  // A null pointer would bind NULL.
  database_.note(value.bytes.empty() ? sqlite3_bind_zeroblob(statement_, index, 0)
                                     : sqlite3_bind_blob64(statement_, index, value.bytes.data(),
                                                           value.bytes.size(), SQLITE_STATIC));
}

void Query::bind(int index, const Text& value) {
  if (statement_ != nullptr) {
    database_.note(sqlite3_bind_text64(statement_, index,
                                       value.text.data() == nullptr ? "" : value.text.data(),
                                       value.text.size(), SQLITE_STATIC, SQLITE_UTF8));
  }
}

}  // namespace idempotency::sqlite
