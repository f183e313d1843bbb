#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

namespace idempotency::cli {

// Asks on the process's terminal, whatever stdin and stdout are. None: it has no terminal, or the
// person there ends the input.
std::optional<std::string> askAtTerminal(std::string_view question);

struct TerminalSize {
  size_t columns = 80;
  size_t rows = 24;
};

// The whole terminal as one screen, from the constructor to the destructor, which gives it back as
// it was. One at a time in a process. A signal that ends the process (Ctrl-C included) gives it
// back as well, even while a call of the store blocks.
class FullScreen {
public:
  // Fails if stdin or stdout is not a terminal.
  static absl::StatusOr<FullScreen> open();
  FullScreen(FullScreen&& other) noexcept;
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(FullScreen&&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;
  ~FullScreen();

  TerminalSize size() const;
  // Replaces what is shown. One write, so that nothing flickers.
  void show(std::string_view frame);
  enum class Event : uint8_t { None, Quit, Refresh };
  // Waits for a key, for another size of the terminal, or until the time is over.
  Event wait(std::chrono::milliseconds limit);

private:
  FullScreen() = default;
  bool owns_ = true;
};

}  // namespace idempotency::cli
