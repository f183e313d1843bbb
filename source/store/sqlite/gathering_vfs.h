#pragma once

#include <cstddef>

namespace idempotency::sqlite {

// SQLite writes a commit to the write-ahead log with two small writes per page. This VFS wraps the
// process's default one, passes everything through, and combines such writes into large ones.
//
// It preserves what SQLite relies on:
//  - After xSync() the data is on disk: it writes the collected data, then syncs.
//  - The file's owner reads what it wrote: collected data is written before any other access to the
//    log.
//  - Others never see less than the log's index promises: with synchronous=FULL, a commit is in the
//    index only after its xSync(). A connection with a lower setting must not use this VFS.
//  - Nothing is written to the log without the write lock: collected data is written before
//    the lock is released. Later, its place may belong to another process's commit.
//  - A write that fails late makes the transaction fail: xSync(), and all other calls until the end
//    of the transaction, return its error. SQLITE_FULL still means that the commit is not in the
//    log: the frame that completes it is written last.
//
// Like a connection, a file is used by one thread at a time.

// Limit of collected bytes per connection. SQLite's VFS for Unix cannot write 128 KiB at once: it
// uses only the low 17 bits of a size.
constexpr size_t MaxGatheredBytes = size_t{120} << 10;

// The name for sqlite3_open_v2(). Registered at the first call, on top of the current default VFS.
// Any thread. Null, which means the default VFS, if SQLite has none or there is no memory.
const char* gatheringVfs();

}  // namespace idempotency::sqlite
