#include "source/operator_api/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <fmt/format.h>
#include <span>
#include <utility>

#include "source/fingerprint/utf8.h"

namespace idempotency::operator_api {
namespace {

using protocol::RecordState;
using protocol::Tombstone;

constexpr std::string_view Replacement = "\xef\xbf\xbd";

template <class Value>
using Names = std::pair<Value, std::string_view>;

constexpr std::array<Names<RecordState>, 5> States = {{
    {RecordState::InProgress, "in_progress"},
    {RecordState::Completed, "completed"},
    {RecordState::FailedRetryable, "failed_retryable"},
    {RecordState::Unknown, "unknown"},
    {RecordState::Expired, "expired"},
}};
constexpr std::array<Names<Tombstone>, 4> Tombstones = {{
    {Tombstone::None, "none"},
    {Tombstone::TooLarge, "too_large"},
    {Tombstone::Secret, "secret"},
    {Tombstone::Unstorable, "unstorable"},
}};

template <class Value>
std::string_view nameOf(Value value, std::span<const Names<Value>> all) {
  const auto* const found = std::find_if(all.data(), all.data() + all.size(),
                                         [&](const auto& one) { return one.first == value; });
  return found == all.data() + all.size() ? "invalid" : found->second;
}

template <class Value>
std::optional<Value> valueOf(std::string_view name, std::span<const Names<Value>> all) {
  for (const auto& [value, text] : all) {
    if (text == name) {
      return value;
    }
  }
  return std::nullopt;
}

// A number of exactly these digits, and what stands behind them.
std::optional<int> takeDigits(std::string_view& text, size_t digits, std::string_view behind) {
  int value = 0;
  const std::string_view taken = text.substr(0, digits);
  const auto [end, error] = std::from_chars(taken.data(), taken.data() + taken.size(), value);
  if (taken.size() < digits || taken.front() == '-' || error != std::errc() ||
      end != taken.data() + taken.size() || !text.substr(digits).starts_with(behind)) {
    return std::nullopt;
  }
  text.remove_prefix(digits + behind.size());
  return value;
}

}  // namespace

std::string shownText(std::string_view bytes) {
  if (fingerprint::isUtf8(bytes)) {
    return std::string(bytes);
  }
  const std::string guarded(bytes);  // Ends with a zero, where utf8Length() stops.
  std::string text;
  for (size_t i = 0; i < guarded.size();) {
    const bool ascii = static_cast<uint8_t>(guarded[i]) < 0x80;
    const size_t length = ascii ? 1 : fingerprint::utf8Length(guarded.data() + i);
    text += length == 0 ? Replacement : std::string_view(guarded).substr(i, length);
    i += std::max<size_t>(length, 1);
  }
  return text;
}

std::string formatTime(store::StoreTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

std::optional<store::StoreTime> parseTime(std::string_view text) {
  const auto year = takeDigits(text, 4, "-");
  const auto month = takeDigits(text, 2, "-");
  const auto day = takeDigits(text, 2, "T");
  const auto hour = takeDigits(text, 2, ":");
  const auto minute = takeDigits(text, 2, ":");
  const auto second = takeDigits(text, 2, ".");
  const auto millis = takeDigits(text, 3, "Z");
  if (!year || !month || !day || !hour || !minute || !second || !millis || !text.empty()) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date(std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 59) {
    return std::nullopt;
  }
  return store::StoreTime(std::chrono::sys_days(date)) + std::chrono::hours(*hour) +
         std::chrono::minutes(*minute) + std::chrono::seconds(*second) +
         std::chrono::milliseconds(*millis);
}

std::string_view stateName(RecordState state) {
  return nameOf<RecordState>(state, States);
}

std::optional<RecordState> parseState(std::string_view name) {
  return valueOf<RecordState>(name, States);
}

std::string_view tombstoneName(Tombstone tombstone) {
  return nameOf<Tombstone>(tombstone, Tombstones);
}

std::optional<Tombstone> parseTombstone(std::string_view name) {
  return valueOf<Tombstone>(name, Tombstones);
}

std::string_view leaseExpiredName(protocol::LeaseExpired policy) {
  switch (policy) {
    case protocol::LeaseExpired::Unknown:
      return "unknown";
    case protocol::LeaseExpired::Retry:
      return "retry";
  }
  return "invalid";
}

std::optional<protocol::Attempt> parseAttempt(std::string_view digits) {
  const auto number = digits.starts_with('0') ? std::nullopt : parseNumber(digits);
  return number.value_or(0) > 0 ? number : std::nullopt;
}

std::optional<int64_t> parseNumber(std::string_view digits) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return std::nullopt;
  }
  return number;
}

}  // namespace idempotency::operator_api
