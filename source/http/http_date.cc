#include "source/http/http_date.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <fmt/format.h>

namespace idempotency::http {
namespace {

using std::chrono::sys_days;
using std::chrono::year_month_day;

constexpr int64_t SecondsPerDay = 86'400;
constexpr int64_t MaxTime = 253'402'300'799;  // 9999-12-31 23:59:59.
constexpr size_t DateLength = 29;
constexpr std::array<std::string_view, 7> Weekdays = {"Sun", "Mon", "Tue", "Wed",
                                                      "Thu", "Fri", "Sat"};
constexpr std::array<std::string_view, 12> Months = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

std::string_view weekdayName(sys_days day) {
  return Weekdays[std::chrono::weekday(day).c_encoding()];
}

// Digits only; -1 for anything else.
int readNumber(std::string_view text) {
  int number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') {
      return -1;
    }
    number = number * 10 + (c - '0');
  }
  return number;
}

}  // namespace

std::string formatHttpDate(int64_t unix_seconds) {
  const int64_t time = std::clamp<int64_t>(unix_seconds, 0, MaxTime);
  const sys_days day{std::chrono::days(time / SecondsPerDay)};
  const year_month_day date(day);
  const int64_t second = time % SecondsPerDay;
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", weekdayName(day),
                     static_cast<unsigned>(date.day()),
                     Months[static_cast<unsigned>(date.month()) - 1], static_cast<int>(date.year()),
                     second / 3600, second / 60 % 60, second % 60);
}

std::optional<int64_t> parseHttpDate(std::string_view text) {
  // "Sun, 06 Nov 1994 08:49:37 GMT"
  if (text.size() != DateLength || text.substr(3, 2) != ", " || text[7] != ' ' || text[11] != ' ' ||
      text[16] != ' ' || text[19] != ':' || text[22] != ':' || text.substr(25) != " GMT") {
    return std::nullopt;
  }
  const auto month = std::find(Months.begin(), Months.end(), text.substr(8, 3));
  const int day = readNumber(text.substr(5, 2));
  const int year = readNumber(text.substr(12, 4));
  const int hour = readNumber(text.substr(17, 2));
  const int minute = readNumber(text.substr(20, 2));
  const int second = readNumber(text.substr(23, 2));
  if (month == Months.end() || day < 1 || year < 1970 || hour < 0 || hour > 23 || minute < 0 ||
      minute > 59 || second < 0 || second > 60) {
    return std::nullopt;
  }
  const year_month_day date(std::chrono::year(year),
                            std::chrono::month(static_cast<unsigned>(month - Months.begin()) + 1),
                            std::chrono::day(static_cast<unsigned>(day)));
  if (!date.ok() || weekdayName(sys_days(date)) != text.substr(0, 3)) {
    return std::nullopt;
  }
  return sys_days(date).time_since_epoch().count() * SecondsPerDay + hour * 3600 + minute * 60 +
         second;
}

}  // namespace idempotency::http
