#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "source/cli/terminal.h"
#include "source/store/operator_store.h"

namespace idempotency::cli {

// What `watch` shows.
struct WatchView {
  std::string store_name;  // Printable.
  store::Summary summary;
  std::vector<store::ListedRecord> records;  // Unknown ones; sorted by drawWatch().
  bool more_records = false;
  std::string error;  // Not empty: the store's last answer was this, and the rest is older.
};

// One frame: at most so many rows, each at most so wide, without a line end after the last. With
// `colors`, ANSI attributes besides.
std::string drawWatch(const WatchView& view, TerminalSize size, bool colors);

}  // namespace idempotency::cli
