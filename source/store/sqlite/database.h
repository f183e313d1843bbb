#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include <sqlite3.h>

namespace idempotency::sqlite {

// A connection to a database file. One thread at a time.
//
// Failures are sticky: the first one is kept, and until clearError() no statement is carried out,
// no row is returned and no value is valid. So a sequence of statements needs only one check at the
// end: its result is valid if error() is SQLITE_OK.
class Database {
public:
  // Opens an existing file for reading and writing, or with `create` makes one that only the
  // process's user can read.
  static absl::StatusOr<std::unique_ptr<Database>> open(const std::string& path, bool create);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // An extended result code of SQLite.
  int error() const { return error_; }
  // SQLite's message about it, with the code.
  const std::string& message() const { return message_; }
  void clearError();
  // Keeps the code if it is the first failure. True if there was no failure so far.
  bool note(int code);

  // Carries out statements that return nothing of interest.
  bool run(const std::string& sql);
  // The first value of the first row, as text; empty if there is none.
  std::string ask(const std::string& sql);
  // The same as a number; 0 if there is none.
  int64_t askNumber(const std::string& sql);

  // How many rows the last INSERT, UPDATE or DELETE changed.
  int64_t lastInsertedId() const { return sqlite3_last_insert_rowid(handle_); }
  int64_t changes() const { return sqlite3_changes64(handle_); }
  // Whether BEGIN was carried out and neither COMMIT nor ROLLBACK since.
  bool inTransaction() const { return sqlite3_get_autocommit(handle_) == 0; }
  // Ends a transaction, if there is one, whatever went wrong in it; clears the error.
  void rollBack();
  // Whether a commit that failed with this error may have been made. If there is no space, nothing
  // complete was written. After any other error, the commit may be in the log although this
  // connection does not see it: it counts if this process dies now and another one reads the log.
  static bool mayBeCommitted(int error);

  // Called repeatedly while another connection holds a needed lock; if it returns false, the
  // statement fails with SQLITE_BUSY.
  void setPatience(std::function<bool()> patience) { patience_ = std::move(patience); }
  // Called repeatedly while a statement runs; if it returns true, it fails with SQLITE_INTERRUPT.
  void setInterrupt(std::function<bool()> interrupt);

  // Whether the open file no longer has its name in the file system.
  bool hasMoved();

  // Moves what it can from the write-ahead log into the file. SQLite does not do this automatically
  // here. What fails is tried again next time.
  void moveLog();
  // Only if the log has grown long.
  void moveLongLog();

  sqlite3* handle() { return handle_; }

private:
  explicit Database(sqlite3* handle);

  sqlite3* const handle_;
  int error_ = SQLITE_OK;
  int log_pages_ = 0;  // After the last commit.
  std::string message_;
  std::function<bool()> patience_;
  std::function<bool()> interrupt_;
};

// Values to bind. Views: they must outlive the Query.
struct Blob {
  std::string_view bytes;
};
struct Text {
  std::string_view text;
};
using Value = std::variant<int64_t, Blob, Text>;

// A prepared statement, made once and used by Query. The database outlives it.
class Statement {
public:
  Statement(Database& database, std::string_view sql);

private:
  friend class Query;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  Database& database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// One use of a statement: binds its parameters in order and returns its rows. When it is destroyed,
// the statement can be used again.
class Query {
public:
  template <typename... Values>
  explicit Query(Statement& statement, const Values&... values)
      : database_(statement.database_), statement_(statement.statement_.get()) {
    int index = 0;
    (bind(++index, values), ...);
  }
  Query(Statement& statement, const std::vector<Value>& values);
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  // True: there is a row. False: there are no more rows, or something failed.
  bool next();
  // Carries out a statement without rows; how many rows it changed, 0 if something failed.
  int64_t run();

  int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  bool isNull(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  std::optional<int64_t> optionalInteger(int column) const;
  // Bytes of a blob or a text.
  std::string bytes(int column) const;

private:
  void bind(int index, int64_t value);
  void bind(int index, const std::optional<int64_t>& value);
  void bind(int index, const Blob& value);
  void bind(int index, const Text& value);

  Database& database_;
  sqlite3_stmt* const statement_;
};

}  // namespace idempotency::sqlite
