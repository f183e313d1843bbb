#include "test/store/sqlite/test_vfs.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <new>

#include <sqlite3.h>

namespace idempotency::test::test_vfs {
namespace {

struct Control {
  std::atomic<int64_t> offset{0};
  std::mutex mutex;
  std::shared_ptr<const Fault> fault;
  bool tracking = false;
  std::map<std::string, std::string> durable;
};

Control& control() {
  static Control instance;
  return instance;
}

sqlite3_vfs* system_vfs = nullptr;

// SQLite allocates it, with room for the system's file behind.
struct File {
  sqlite3_file base;
  std::string* name;
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

File* toFile(sqlite3_file* file) {
  return reinterpret_cast<File*>(file);
}
sqlite3_file* real(sqlite3_file* file) {
  return toFile(file)->real();
}

int faultOf(Call call, const std::string& name) {
  std::shared_ptr<const Fault> fault;
  {
    const std::lock_guard lock(control().mutex);
    fault = control().fault;
  }
  return fault == nullptr ? SQLITE_OK : (*fault)(call, name);
}

int faultOf(Call call, sqlite3_file* file) {
  return faultOf(call, *toFile(file)->name);
}

// What the file holds now is on the disk.
void rememberAsDurable(sqlite3_file* file, bool anew) {
  const std::lock_guard lock(control().mutex);
  if (!control().tracking || (!anew && control().durable.contains(*toFile(file)->name))) {
    return;
  }
  sqlite3_int64 size = 0;
  real(file)->pMethods->xFileSize(real(file), &size);
  std::string& content = control().durable[*toFile(file)->name];
  content.resize(static_cast<size_t>(size));
  if (size > 0) {
    real(file)->pMethods->xRead(real(file), content.data(), static_cast<int>(size), 0);
  }
}

int onClose(sqlite3_file* file) {
  const int code = real(file)->pMethods->xClose(real(file));
  delete toFile(file)->name;
  return code;
}
int onRead(sqlite3_file* file, void* data, int size, sqlite3_int64 offset) {
  const int fault = faultOf(Call::Read, file);
  return fault != SQLITE_OK ? fault : real(file)->pMethods->xRead(real(file), data, size, offset);
}
int onWrite(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
  const int fault = faultOf(Call::Write, file);
  return fault != SQLITE_OK ? fault : real(file)->pMethods->xWrite(real(file), data, size, offset);
}
int onTruncate(sqlite3_file* file, sqlite3_int64 size) {
  const int fault = faultOf(Call::Truncate, file);
  return fault != SQLITE_OK ? fault : real(file)->pMethods->xTruncate(real(file), size);
}
int onSync(sqlite3_file* file, int flags) {
  if (const int fault = faultOf(Call::Sync, file); fault != SQLITE_OK) {
    return fault;
  }
  const int code = real(file)->pMethods->xSync(real(file), flags);
  if (code == SQLITE_OK) {
    rememberAsDurable(file, /*anew=*/true);
  }
  return code;
}
int onFileSize(sqlite3_file* file, sqlite3_int64* size) {
  return real(file)->pMethods->xFileSize(real(file), size);
}
int onLock(sqlite3_file* file, int level) {
  const int fault = faultOf(Call::Lock, file);
  return fault != SQLITE_OK ? fault : real(file)->pMethods->xLock(real(file), level);
}
int onUnlock(sqlite3_file* file, int level) {
  return real(file)->pMethods->xUnlock(real(file), level);
}
int onCheckReservedLock(sqlite3_file* file, int* result) {
  return real(file)->pMethods->xCheckReservedLock(real(file), result);
}
int onFileControl(sqlite3_file* file, int what, void* argument) {
  return real(file)->pMethods->xFileControl(real(file), what, argument);
}
int onSectorSize(sqlite3_file* file) {
  return real(file)->pMethods->xSectorSize(real(file));
}
int onDeviceCharacteristics(sqlite3_file* file) {
  return real(file)->pMethods->xDeviceCharacteristics(real(file));
}
int onShmMap(sqlite3_file* file, int page, int size, int extend, void volatile** memory) {
  const int fault = faultOf(Call::ShmMap, file);
  return fault != SQLITE_OK ? fault
                            : real(file)->pMethods->xShmMap(real(file), page, size, extend, memory);
}
int onShmLock(sqlite3_file* file, int offset, int count, int flags) {
  return real(file)->pMethods->xShmLock(real(file), offset, count, flags);
}
void onShmBarrier(sqlite3_file* file) {
  real(file)->pMethods->xShmBarrier(real(file));
}
int onShmUnmap(sqlite3_file* file, int remove) {
  return real(file)->pMethods->xShmUnmap(real(file), remove);
}
int onFetch(sqlite3_file* file, sqlite3_int64 offset, int size, void** memory) {
  return real(file)->pMethods->xFetch(real(file), offset, size, memory);
}
int onUnfetch(sqlite3_file* file, sqlite3_int64 offset, void* memory) {
  return real(file)->pMethods->xUnfetch(real(file), offset, memory);
}

const sqlite3_io_methods Methods = {
    3,
    onClose,
    onRead,
    onWrite,
    onTruncate,
    onSync,
    onFileSize,
    onLock,
    onUnlock,
    onCheckReservedLock,
    onFileControl,
    onSectorSize,
    onDeviceCharacteristics,
    onShmMap,
    onShmLock,
    onShmBarrier,
    onShmUnmap,
    onFetch,
    onUnfetch,
};

std::string lastPart(const char* path) {
  if (path == nullptr) {
    return "(temporary)";
  }
  const std::string_view whole(path);
  return std::string(whole.substr(whole.rfind('/') + 1));
}

int onOpen(sqlite3_vfs*, const char* path, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;
  if (const int fault = faultOf(Call::Open, lastPart(path)); fault != SQLITE_OK) {
    return fault;
  }
  const int code = system_vfs->xOpen(system_vfs, path, real(file), flags, out_flags);
  if (code == SQLITE_OK) {
    toFile(file)->name = new std::string(lastPart(path));
    file->pMethods = &Methods;
    rememberAsDurable(file, /*anew=*/false);
  }
  return code;
}
int onDelete(sqlite3_vfs*, const char* path, int sync) {
  return system_vfs->xDelete(system_vfs, path, sync);
}
int onAccess(sqlite3_vfs*, const char* path, int flags, int* result) {
  return system_vfs->xAccess(system_vfs, path, flags, result);
}
int onFullPathname(sqlite3_vfs*, const char* path, int size, char* out) {
  return system_vfs->xFullPathname(system_vfs, path, size, out);
}
int onCurrentTime64(sqlite3_vfs*, sqlite3_int64* time) {
  const int code = system_vfs->xCurrentTimeInt64(system_vfs, time);
  *time += control().offset.load();
  return code;
}
int onCurrentTime(sqlite3_vfs* vfs, double* time) {
  sqlite3_int64 milliseconds = 0;
  const int code = onCurrentTime64(vfs, &milliseconds);
  *time = static_cast<double>(milliseconds) / 86'400'000.0;
  return code;
}

}  // namespace

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    system_vfs = sqlite3_vfs_find(nullptr);
    static sqlite3_vfs vfs = *system_vfs;
    vfs.pNext = nullptr;
    vfs.zName = "test";
    vfs.szOsFile = static_cast<int>(sizeof(File)) + system_vfs->szOsFile;
    vfs.xOpen = onOpen;
    vfs.xDelete = onDelete;
    vfs.xAccess = onAccess;
    vfs.xFullPathname = onFullPathname;
    vfs.xCurrentTime = onCurrentTime;
    vfs.xCurrentTimeInt64 = onCurrentTime64;
    sqlite3_vfs_register(&vfs, 1);
  });
}

void reset() {
  const std::lock_guard lock(control().mutex);
  control().offset = 0;
  control().fault = nullptr;
  control().tracking = false;
  control().durable.clear();
}

void passTime(std::chrono::milliseconds time) {
  control().offset += time.count();
}

void setFault(Fault fault) {
  const std::lock_guard lock(control().mutex);
  control().fault = fault == nullptr ? nullptr : std::make_shared<const Fault>(std::move(fault));
}

void trackDurable() {
  const std::lock_guard lock(control().mutex);
  control().tracking = true;
}

std::map<std::string, std::string> durableFiles() {
  const std::lock_guard lock(control().mutex);
  return control().durable;
}

}  // namespace idempotency::test::test_vfs
