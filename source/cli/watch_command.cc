#include "source/cli/watch_command.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <absl/status/status.h>

#include "source/cli/store_options.h"
#include "source/cli/terminal.h"
#include "source/cli/watch_screen.h"
#include "source/store/operator_store.h"

namespace idempotency::cli {
namespace {

constexpr size_t LongestInterval = 3600;
constexpr uint32_t MostRecords = 200;
// Of a frame that goes to a file or a pipe.
constexpr TerminalSize AnySize = {.columns = 1000, .rows = 1000};

constexpr std::array<Option, 2> WatchOptions = {{
    {"interval", "SECONDS", "time between two refreshes, 1 to 3600 (default: 2)"},
    {"once", "", "print one frame and exit; needs no terminal"},
}};
constexpr auto Options = joinOptions(WatchOptions, StoreOptions);

bool wantsColors() {
  const char* const setting = std::getenv("NO_COLOR");
  return setting == nullptr || *setting == '\0';
}

// Asks the store again and again, and remembers its last answer.
class Watch {
public:
  explicit Watch(const Arguments& arguments) : arguments_(arguments) {
    view_.store_name = storeName(arguments);
  }

  absl::Status refresh() {
    absl::Status status = ask();
    view_.error = std::string(status.message());
    if (!status.ok()) {
      store_.reset();
    }
    return status;
  }
  const WatchView& view() const { return view_; }

private:
  absl::Status ask() {
    if (store_ == nullptr) {
      auto opened = openStore(arguments_);
      if (!opened.ok()) {
        return opened.status();
      }
      store_ = *std::move(opened);
    }
    auto summary = fromStore(store_->summary());
    if (!summary.ok()) {
      return summary.status();
    }
    auto page = fromStore(store_->list(unknownOnes(), std::nullopt, MostRecords));
    if (!page.ok()) {
      return page.status();
    }
    view_.summary = *std::move(summary);
    view_.records = std::move(page->records);
    view_.more_records = page->more;
    return absl::OkStatus();
  }

  static store::RecordFilter unknownOnes() {
    store::RecordFilter filter;
    filter.states = {protocol::RecordState::Unknown};
    return filter;
  }

  const Arguments& arguments_;
  std::unique_ptr<store::OperatorStore> store_;  // None: opened by the next refresh.
  WatchView view_;
};

void watchUntilQuit(Watch& watch, FullScreen& screen, std::chrono::milliseconds interval) {
  const bool colors = wantsColors();
  do {
    screen.show(drawWatch(watch.view(), screen.size(), colors));
    if (screen.wait(interval) == FullScreen::Event::Quit) {
      return;
    }
    // An error is part of the next frame: a store that comes back is shown again.
    (void)watch.refresh();
  } while (true);
}

absl::StatusOr<ExitCode> run(const Arguments& arguments, Console& console) {
  const auto interval = arguments.number("interval", 1, LongestInterval, 2);
  if (!interval.ok()) {
    return interval.status();
  }
  for (const std::string_view name : {"password-file", "header-file"}) {
    if (arguments.value(name) == "-") {
      return absl::InvalidArgumentError(
          fmt::format("--{} must be a file: stdin is the keyboard", name));
    }
  }
  Watch watch(arguments);
  // The first answer comes before the screen: a wrong connection string is a plain error.
  if (const absl::Status status = watch.refresh(); !status.ok()) {
    return status;
  }
  if (arguments.has("once")) {
    console.out << drawWatch(watch.view(), AnySize, false) << '\n';
    return ExitCode::Done;
  }
  auto screen = FullScreen::open();
  if (!screen.ok()) {
    return screen.status();
  }
  watchUntilQuit(watch, *screen, std::chrono::seconds(*interval));
  return ExitCode::Done;
}

}  // namespace

const Command WatchCommand = {
    .words = "watch",
    .summary = "show unknown outcomes live, in the terminal",
    .description =
        "Shows what summary shows, and the unknown records, the oldest first, and refreshes it.\n"
        "q or Ctrl-C quits; any other key refreshes at once. If the store does not answer, the "
        "last\n"
        "answer stays on the screen. NO_COLOR switches colors off.",
    .options = Options,
    .operands = {},
    .run = run,
};

}  // namespace idempotency::cli
