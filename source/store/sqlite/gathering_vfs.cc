#include "source/store/sqlite/gathering_vfs.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include <sqlite3.h>

namespace idempotency::sqlite {
namespace {

// Of the eight locks in SQLite's shared memory, by the file format.
constexpr int WriteLock = 0;

sqlite3_vfs* below = nullptr;  // Set once, before anything is opened.

// --- Files
//
// A file starts with the file of the underlying VFS, in the memory from SQLite, so that its own
// methods work on it. Our data follows it, and its table of methods is theirs, with a few changes.

struct LogFile;

struct MainFile {
  const sqlite3_io_methods* below = nullptr;
  sqlite3_io_methods methods{};
  LogFile* log = nullptr;  // While it is open, which is shorter.
};

struct LogFile {
  const sqlite3_io_methods* below = nullptr;
  sqlite3_io_methods methods{};
  MainFile* main = nullptr;
  sqlite3_file* file = nullptr;

  std::unique_ptr<char[]> bytes;  // What was gathered, for `offset` and on.
  size_t size = 0;
  sqlite3_int64 offset = 0;
  int error = SQLITE_OK;  // A late write failed: what SQLite believes to be in the log is not.
};

size_t offsetOfOurs() {
  constexpr size_t Alignment = 8;  // That of SQLite's memory.
  static_assert(alignof(MainFile) <= Alignment && alignof(LogFile) <= Alignment);
  return (static_cast<size_t>(below->szOsFile) + Alignment - 1) / Alignment * Alignment;
}

template <typename File>
File& ours(sqlite3_file* file) {
  return *reinterpret_cast<File*>(reinterpret_cast<char*>(file) + offsetOfOurs());
}

template <typename File>
File& attach(sqlite3_file* file) {
  auto* const added = new (&ours<File>(file)) File();
  added->below = file->pMethods;
  added->methods = *file->pMethods;
  file->pMethods = &added->methods;
  return *added;
}

// --- The log

int flush(LogFile& log) {
  if (log.error == SQLITE_OK && log.size > 0) {
    log.error =
        log.below->xWrite(log.file, log.bytes.get(), static_cast<int>(log.size), log.offset);
    log.size = 0;
  }
  return log.error;
}

// The transaction has ended. If it was not committed, an error in the rest does not matter.
void endTransaction(LogFile& log) {
  flush(log);
  log.error = SQLITE_OK;
}

int onWrite(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
  auto& log = ours<LogFile>(file);
  const auto bytes = static_cast<size_t>(size);
  const bool follows = offset == log.offset + static_cast<sqlite3_int64>(log.size);
  if (!follows || log.size + bytes > MaxGatheredBytes) {
    flush(log);
  }
  if (log.error != SQLITE_OK) {
    return log.error;
  }
  if (bytes > MaxGatheredBytes) {
    return log.below->xWrite(file, data, size, offset);
  }
  if (log.size == 0) {
    log.offset = offset;
  }
  std::memcpy(log.bytes.get() + log.size, data, bytes);
  log.size += bytes;
  return SQLITE_OK;
}

int onRead(sqlite3_file* file, void* data, int size, sqlite3_int64 offset) {
  auto& log = ours<LogFile>(file);
  const int code = flush(log);
  return code != SQLITE_OK ? code : log.below->xRead(file, data, size, offset);
}

int onTruncate(sqlite3_file* file, sqlite3_int64 size) {
  auto& log = ours<LogFile>(file);
  const int code = flush(log);
  return code != SQLITE_OK ? code : log.below->xTruncate(file, size);
}

int onSync(sqlite3_file* file, int flags) {
  auto& log = ours<LogFile>(file);
  const int code = flush(log);
  return code != SQLITE_OK ? code : log.below->xSync(file, flags);
}

int onFileSize(sqlite3_file* file, sqlite3_int64* size) {
  auto& log = ours<LogFile>(file);
  const int code = flush(log);
  return code != SQLITE_OK ? code : log.below->xFileSize(file, size);
}

int onFileControl(sqlite3_file* file, int what, void* argument) {
  auto& log = ours<LogFile>(file);
  const int code = flush(log);
  return code != SQLITE_OK ? code : log.below->xFileControl(file, what, argument);
}

int onCloseLog(sqlite3_file* file) {
  auto& log = ours<LogFile>(file);
  endTransaction(log);
  log.main->log = nullptr;
  const sqlite3_io_methods* const methods = log.below;
  log.~LogFile();
  return methods->xClose(file);
}

// --- The database file, whose shared memory holds the locks of the log

int onShmLock(sqlite3_file* file, int first, int count, int flags) {
  auto& main = ours<MainFile>(file);
  if (first == WriteLock && (flags & SQLITE_SHM_UNLOCK) != 0 && main.log != nullptr) {
    endTransaction(*main.log);
  }
  return main.below->xShmLock(file, first, count, flags);
}

// --- Opening

void attachMain(sqlite3_file* file) {
  auto& main = attach<MainFile>(file);
  if (main.below->iVersion >= 2) {
    main.methods.xShmLock = onShmLock;
  }
}

// If a power failure during a write could damage adjacent data, SQLite adds frames to a commit, and
// does not sync the last one. In that case, and without memory, the log is not changed.
void attachLog(sqlite3_file* file, sqlite3_file* main_file) {
  auto& main = ours<MainFile>(main_file);
  if ((main.below->xDeviceCharacteristics(main_file) & SQLITE_IOCAP_POWERSAFE_OVERWRITE) == 0) {
    return;
  }
  std::unique_ptr<char[]> bytes(new (std::nothrow) char[MaxGatheredBytes]);
  if (bytes == nullptr) {
    return;
  }
  auto& log = attach<LogFile>(file);
  log.file = file;
  log.bytes = std::move(bytes);
  log.main = &main;
  main.log = &log;
  log.methods.xClose = onCloseLog;
  log.methods.xRead = onRead;
  log.methods.xWrite = onWrite;
  log.methods.xTruncate = onTruncate;
  log.methods.xSync = onSync;
  log.methods.xFileSize = onFileSize;
  log.methods.xFileControl = onFileControl;
}

int onOpen(sqlite3_vfs*, const char* path, sqlite3_file* file, int flags, int* out_flags) {
  const int code = below->xOpen(below, path, file, flags, out_flags);
  if (code != SQLITE_OK) {
    return code;
  }
  if ((flags & SQLITE_OPEN_MAIN_DB) != 0) {
    attachMain(file);
  } else if ((flags & SQLITE_OPEN_WAL) != 0) {
    attachLog(file, sqlite3_database_file_object(path));
  }
  return SQLITE_OK;
}

const char* registerVfs() {
  below = sqlite3_vfs_find(nullptr);
  if (below == nullptr) {
    return nullptr;
  }
  // The calls that are not about a file are those of the one below; what they need is in pAppData.
  static sqlite3_vfs vfs = *below;
  vfs.pNext = nullptr;
  vfs.zName = "gathering";
  vfs.szOsFile = static_cast<int>(offsetOfOurs() + std::max(sizeof(MainFile), sizeof(LogFile)));
  vfs.xOpen = onOpen;
  return sqlite3_vfs_register(&vfs, /*makeDflt=*/0) == SQLITE_OK ? vfs.zName : nullptr;
}

}  // namespace

const char* gatheringVfs() {
  static const char* const name = registerVfs();
  return name;
}

}  // namespace idempotency::sqlite
