#include "source/cli/watch_screen.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <string_view>

#include "source/cli/printable.h"
#include "source/cli/record_text.h"
#include "source/cli/text_table.h"
#include "source/cli/time_text.h"

namespace idempotency::cli {
namespace {

constexpr std::string_view Bold = "\x1b[1m";
constexpr std::string_view Reverse = "\x1b[7m";
constexpr std::string_view Red = "\x1b[31;1m";
constexpr std::string_view Plain = "\x1b[0m";

// Lines until the screen is full.
class Frame {
public:
  Frame(TerminalSize size, bool colors) : size_(size), colors_(colors) {}

  bool isFull() const { return rows_ >= size_.rows; }
  void add(std::string_view line, std::string_view attribute = {}) {
    if (isFull()) {
      return;
    }
    text_ += rows_ == 0 ? "" : "\n";
    const bool marked = colors_ && !attribute.empty();
    text_ += marked ? attribute : "";
    text_ += cutToWidth(line, size_.columns);
    text_ += marked ? Plain : "";
    ++rows_;
  }
  // Lines that end with '\n'; the first is a header.
  void addTable(std::string_view table) {
    std::string_view attribute = Reverse;
    while (!table.empty()) {
      const size_t end = table.find('\n');
      add(table.substr(0, end), attribute);
      attribute = {};
      table.remove_prefix(end == std::string_view::npos ? table.size() : end + 1);
    }
  }
  std::string text() && { return std::move(text_); }

private:
  const TerminalSize size_;
  const bool colors_;
  std::string text_;
  size_t rows_ = 0;
};

struct Totals {
  uint64_t records = 0;
  uint64_t dead_letters = 0;
  std::chrono::milliseconds oldest{0};
};

Totals totals(const store::Summary& summary) {
  Totals all;
  for (const store::UnsettledUse& use : summary.unsettled) {
    all.records += use.records;
    all.dead_letters += use.dead_letters;
    all.oldest = std::max(all.oldest, use.oldest);
  }
  return all;
}

std::string headline(const Totals& all) {
  if (all.records == 0) {
    return "No outcome is unknown.";
  }
  return fmt::format("{} unknown, {} of them dead letters, the oldest for {}", all.records,
                     all.dead_letters, shownDuration(all.oldest));
}

std::vector<store::ListedRecord> oldestFirst(std::vector<store::ListedRecord> records) {
  std::stable_sort(records.begin(), records.end(), [](const auto& left, const auto& right) {
    return left.record.claim_age > right.record.claim_age;
  });
  return records;
}

}  // namespace

std::string drawWatch(const WatchView& view, TerminalSize size, bool colors) {
  Frame frame(size, colors);
  frame.add(fmt::format("idempotencyctl watch  {}  {}  q: quit", view.store_name,
                        shownTime(view.summary.now)),
            Bold);
  if (!view.error.empty()) {
    frame.add(fmt::format("no answer from the store: {}", printable(view.error)), Red);
  }
  const Totals all = totals(view.summary);
  frame.add(headline(all), all.records == 0 ? std::string_view() : Red);
  frame.add(fmt::format("records: {}", statesText(view.summary)));
  frame.add(fmt::format("leader: {}",
                        view.summary.leader.empty() ? "none" : printable(view.summary.leader)));
  if (!view.summary.unsettled.empty()) {
    frame.add("");
    frame.addTable(unsettledTable(view.summary.unsettled));
  }
  if (!view.summary.tenants.empty()) {
    frame.add("");
    frame.addTable(tenantTable(view.summary));
  }
  if (!view.records.empty()) {
    frame.add("");
    frame.addTable(recordTable(oldestFirst(view.records)));
    if (view.more_records) {
      frame.add(fmt::format("(the oldest of the first {} by tenant, operation and key)",
                            view.records.size()));
    }
  }
  return std::move(frame).text();
}

}  // namespace idempotency::cli
