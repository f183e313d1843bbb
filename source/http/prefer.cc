#include "source/http/prefer.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "source/http/header_names.h"

namespace idempotency::http {
namespace {

constexpr std::string_view Blank = " \t";

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(Blank);
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(Blank) - first + 1);
}

// The position of the separator, or the end. One inside of a quoted string does not count.
size_t findUnquoted(std::string_view text, char separator) {
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      quoted = !quoted;
    } else if (quoted && text[i] == '\\') {
      ++i;
    } else if (!quoted && text[i] == separator) {
      return i;
    }
  }
  return text.size();
}

std::string_view unquoted(std::string_view word) {
  const bool quoted = word.size() >= 2 && word.front() == '"' && word.back() == '"';
  return quoted ? word.substr(1, word.size() - 2) : word;
}

std::optional<std::chrono::seconds> secondsOf(std::string_view digits) {
  uint32_t seconds = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seconds);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return std::nullopt;
  }
  return std::chrono::seconds(seconds);
}

// Whether it is one of ours, or repeats one.
bool understand(std::string_view preference, Preferences& preferences) {
  const std::string_view own = preference.substr(0, findUnquoted(preference, ';'));
  const size_t equals = findUnquoted(own, '=');
  const std::string name = toLower(trim(own.substr(0, equals)));
  const std::string_view value =
      equals == own.size() ? std::string_view() : unquoted(trim(own.substr(equals + 1)));
  if (name == "respond-async" && value.empty()) {
    preferences.respond_async = true;
    return true;
  }
  if (name != "wait") {
    return false;
  }
  if (preferences.wait.has_value()) {
    return true;
  }
  preferences.wait = secondsOf(value);
  return preferences.wait.has_value();
}

void read(std::string_view line, Preferences& preferences) {
  while (!line.empty()) {
    const size_t end = findUnquoted(line, ',');
    const std::string_view preference = trim(line.substr(0, end));
    if (!preference.empty() && !understand(preference, preferences)) {
      preferences.others.append(preferences.others.empty() ? "" : ", ").append(preference);
    }
    line.remove_prefix(std::min(end + 1, line.size()));
  }
}

}  // namespace

Preferences parsePreferences(std::span<const std::string_view> lines) {
  Preferences preferences;
  for (const std::string_view line : lines) {
    read(line, preferences);
  }
  return preferences;
}

std::string preferenceApplied(const Preferences& preferences, std::chrono::milliseconds wait) {
  std::string applied = preferences.respond_async ? "respond-async" : "";
  if (preferences.wait == wait) {
    applied.append(applied.empty() ? "" : ", ");
    applied.append("wait=").append(std::to_string(preferences.wait->count()));
  }
  return applied;
}

}  // namespace idempotency::http
