#include "source/cli/terminal.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <absl/status/status.h>

namespace idempotency::cli {
namespace {

constexpr size_t LongestAnswer = 4096;
constexpr std::array EndingSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// The alternate screen without a cursor; and back.
constexpr std::string_view EnterScreen = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view LeaveScreen = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view Home = "\x1b[H";
constexpr std::string_view EraseLine = "\x1b[K";
constexpr std::string_view EraseBelow = "\x1b[J";

// What the signal handler needs. Written before the handlers are installed, and read after that.
termios saved_modes{};
std::atomic<bool> resized{false};

void writeAll(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      return;
    }
    text.remove_prefix(written < 0 ? 0 : static_cast<size_t>(written));
  }
}

// Only functions that a signal handler may call.
void giveBackTerminal() {
  writeAll(LeaveScreen);
  tcsetattr(STDIN_FILENO, TCSANOW, &saved_modes);
}

void onEndingSignal(int signal) {
  giveBackTerminal();
  if (signal == SIGINT) {
    _exit(0);  // Ctrl-C is the way to quit.
  }
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void onResize(int /*signal*/) {
  resized = true;
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;  // Without SA_RESTART: poll() returns.
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

// Keys come at once and are not shown. Ctrl-C still sends its signal; Ctrl-Z does nothing, because
// the shell would get a terminal in this state.
termios keyModes(termios modes) {
  modes.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  modes.c_cc[VMIN] = 1;
  modes.c_cc[VTIME] = 0;
  modes.c_cc[VSUSP] = _POSIX_VDISABLE;
  return modes;
}

struct CloseFile {
  void operator()(FILE* file) const { fclose(file); }
};

}  // namespace

std::optional<std::string> askAtTerminal(std::string_view question) {
  const std::unique_ptr<FILE, CloseFile> terminal(fopen("/dev/tty", "r+e"));
  if (terminal == nullptr) {
    return std::nullopt;
  }
  fwrite(question.data(), 1, question.size(), terminal.get());
  fflush(terminal.get());
  std::array<char, LongestAnswer> line{};
  if (fgets(line.data(), static_cast<int>(line.size()), terminal.get()) == nullptr) {
    return std::nullopt;
  }
  std::string answer = line.data();
  answer.erase(answer.find_last_not_of("\r\n") + 1);
  return answer;
}

absl::StatusOr<FullScreen> FullScreen::open() {
  if (isatty(STDOUT_FILENO) != 1 || tcgetattr(STDIN_FILENO, &saved_modes) != 0) {
    return absl::InvalidArgumentError("stdin and stdout are not a terminal: use --once");
  }
  for (const int signal : EndingSignals) {
    handle(signal, onEndingSignal);
  }
  handle(SIGWINCH, onResize);
  const termios modes = keyModes(saved_modes);
  tcsetattr(STDIN_FILENO, TCSANOW, &modes);
  writeAll(EnterScreen);
  return FullScreen();
}

FullScreen::FullScreen(FullScreen&& other) noexcept : owns_(other.owns_) {
  other.owns_ = false;
}

FullScreen::~FullScreen() {
  if (!owns_) {
    return;
  }
  giveBackTerminal();
  for (const int signal : EndingSignals) {
    handle(signal, SIG_DFL);
  }
}

TerminalSize FullScreen::size() const {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};
  }
  return {.columns = size.ws_col, .rows = size.ws_row};
}

void FullScreen::show(std::string_view frame) {
  std::string text(Home);
  for (const char c : frame) {
    if (c == '\n') {
      text += EraseLine;
      text += '\r';
    }
    text += c;
  }
  text += EraseLine;
  text += EraseBelow;
  writeAll(text);
}

FullScreen::Event FullScreen::wait(std::chrono::milliseconds limit) {
  pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  const int ready = poll(&input, 1, static_cast<int>(limit.count()));
  if (ready < 0 || resized.exchange(false)) {
    return Event::Refresh;
  }
  if (ready == 0) {
    return Event::None;
  }
  std::array<char, 64> keys{};
  const ssize_t got = read(STDIN_FILENO, keys.data(), keys.size());
  // The end of the input: the terminal has gone.
  if (got <= 0) {
    return got < 0 && errno == EINTR ? Event::Refresh : Event::Quit;
  }
  const std::string_view pressed(keys.data(), static_cast<size_t>(got));
  return pressed.find_first_of("qQ\x04") != std::string_view::npos ? Event::Quit : Event::Refresh;
}

}  // namespace idempotency::cli
