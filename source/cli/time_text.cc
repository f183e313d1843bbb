#include "source/cli/time_text.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <fmt/chrono.h>
#include <fmt/format.h>

namespace idempotency::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Unit {
  char letter;
  int64_t seconds;
};
// The largest first.
constexpr std::array<Unit, 4> Units = {{{'d', 86'400}, {'h', 3'600}, {'m', 60}, {'s', 1}}};
constexpr int64_t MostSeconds = int64_t{3'653} * 86'400;

std::optional<int64_t> secondsIn(char letter) {
  for (const Unit& unit : Units) {
    if (unit.letter == letter) {
      return unit.seconds;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string shownDuration(milliseconds duration) {
  if (duration < seconds(1)) {
    return fmt::format("{:.1f}s", static_cast<double>(duration.count()) / 1000);
  }
  const int64_t total = std::chrono::duration_cast<seconds>(duration).count();
  for (size_t i = 0; i + 1 < Units.size(); ++i) {
    const Unit& large = Units[i];
    const Unit& small = Units[i + 1];
    if (total >= large.seconds) {
      return fmt::format("{}{} {}{}", total / large.seconds, large.letter,
                         total % large.seconds / small.seconds, small.letter);
    }
  }
  return fmt::format("{}s", total);
}

std::optional<milliseconds> parseDuration(std::string_view text) {
  int64_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc() || number < 0 || last - end > 1) {
    return std::nullopt;
  }
  const std::optional<int64_t> unit = end == last ? 1 : secondsIn(*end);
  if (!unit.has_value() || number > MostSeconds / *unit) {
    return std::nullopt;
  }
  return seconds(number * *unit);
}

std::string shownTime(store::StoreTime time) {
  const auto whole = std::chrono::floor<seconds>(time);
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(whole.time_since_epoch().count()));
}

}  // namespace idempotency::cli
