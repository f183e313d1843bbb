#pragma once

#include <cstddef>

namespace idempotency::sqlite {

// SQLite writes a commit to the write-ahead log in two small writes for each page. This VFS stands
// on the process's default one, hands everything through, and gathers such writes into large ones.
//
// What SQLite relies on stays true:
//  - What xSync() reports to be on the disk is there: it writes what was gathered, then syncs.
//  - The file's owner reads what it wrote: any other look at the log comes after what was gathered.
//  - Others never see less than the log's index promises: with synchronous=FULL a commit is in the
//    index only after its xSync(). A connection with less must not use this VFS.
//  - Nothing is written to the log without the write lock: what was gathered goes before the lock.
//    Later its place may belong to another process's commit.
//  - A write that fails late fails the transaction: xSync(), and all else until the end of the
//    transaction, return its error. SQLITE_FULL still means that the commit is not in the log: the
//    frame that makes it one is the last that is written.
//
// Like a connection, a file is used by one thread at a time.

// What is gathered at most, for each connection. SQLite's VFS for Unix cannot write 128 KiB at
// once: of a size it takes only the low 17 bits.
constexpr size_t MaxGatheredBytes = size_t{120} << 10;

// The name for sqlite3_open_v2(). Registered at the first call, on what is then the default VFS.
// Any thread. Null, which stands for the default, where SQLite has none or no memory.
const char* gatheringVfs();

}  // namespace idempotency::sqlite
