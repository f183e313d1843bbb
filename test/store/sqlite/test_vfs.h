#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace idempotency::test {

// SQLite's view of the operating system, in between for tests: its clock can be moved, its calls
// can be made to fail, and what the disk would hold after a power cut can be had. It stands under
// every connection of the process that is opened after install(). Any thread.
namespace test_vfs {

enum class Call { Open, Read, Write, Truncate, Sync, Lock, ShmMap };

// Once in a process, before SQLite is used; later calls do nothing.
void install();
// The clock shows the real time again, nothing fails, nothing is tracked.
void reset();

void passTime(std::chrono::milliseconds time);

// Asked before each call, with the last part of the file's path; another code than SQLITE_OK is
// returned in place of the call. Must not use SQLite.
using Fault = std::function<int(Call call, std::string_view file)>;
void setFault(Fault fault);

// From now on remembers what of each file was written and then synced. Only files that are opened
// later; what they hold then counts as synced.
void trackDurable();
// The files by name without folder, as they would be after a power cut now: what was never synced
// is not there. The shared memory is left out, since it does not survive either.
std::map<std::string, std::string> durableFiles();

}  // namespace test_vfs
}  // namespace idempotency::test
