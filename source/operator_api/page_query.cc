#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "source/fingerprint/utf8.h"
#include "source/operator_api/cursor.h"
#include "source/operator_api/record_id.h"
#include "source/operator_api/requests.h"
#include "source/operator_api/text.h"

namespace idempotency::operator_api {
namespace {

constexpr size_t MaxNameShown = 64;

std::optional<int> hexDigit(char c) {
  constexpr std::string_view Digits = "0123456789abcdef";
  const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  const size_t value = Digits.find(lower);
  return value == std::string_view::npos ? std::nullopt : std::optional(static_cast<int>(value));
}

// As forms write it: + is a space.
std::optional<std::string> decodePercent(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const auto high = i + 2 < text.size() ? hexDigit(text[i + 1]) : std::nullopt;
    const auto low = i + 2 < text.size() ? hexDigit(text[i + 2]) : std::nullopt;
    if (!high.has_value() || !low.has_value()) {
      return std::nullopt;
    }
    decoded += static_cast<char>(*high << 4 | *low);
    i += 2;
  }
  return decoded;
}

std::string encodePercent(std::string_view bytes) {
  constexpr std::string_view Plain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string text;
  for (const char c : bytes) {
    if (Plain.find(c) != std::string_view::npos) {
      text += c;
    } else {
      text += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return text;
}

// Sets one parameter. False: the value is not valid.
using Setter = std::function<bool(const std::string& value)>;
struct Parameter {
  Setter set;
  std::string_view expected;  // In words.
};
using Parameters = std::map<std::string_view, Parameter>;

absl::Status setOne(const Parameters& known, const std::string& name, const std::string& value) {
  const auto found = known.find(name);
  if (found == known.end()) {
    return absl::InvalidArgumentError(
        fmt::format("unknown parameter {}", shownText(name.substr(0, MaxNameShown))));
  }
  if (!found->second.set(value)) {
    return absl::InvalidArgumentError(
        fmt::format("parameter {}: expected {}", name, std::string(found->second.expected)));
  }
  return absl::OkStatus();
}

// Each parameter at most once.
absl::Status parseQuery(std::string_view query, const Parameters& known) {
  std::vector<std::string> seen;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    if (pair.empty()) {
      continue;
    }
    const size_t equals = std::min(pair.find('='), pair.size());
    const auto name = decodePercent(pair.substr(0, equals));
    const auto value = decodePercent(pair.substr(std::min(equals + 1, pair.size())));
    if (!name.has_value() || !value.has_value()) {
      return absl::InvalidArgumentError("the query is not correctly percent-encoded");
    }
    if (absl::Status status = setOne(known, *name, *value); !status.ok()) {
      return status;
    }
    if (std::find(seen.begin(), seen.end(), *name) != seen.end()) {
      return absl::InvalidArgumentError(fmt::format("parameter {} is there twice", *name));
    }
    seen.push_back(*name);
  }
  return absl::OkStatus();
}

bool setStates(const std::string& value, std::vector<protocol::RecordState>& states) {
  for (std::string_view rest = value; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    const auto state = parseState(name);
    if (!state.has_value()) {
      return false;
    }
    states.push_back(*state);
  }
  return !states.empty();
}

bool setAttempt(const std::string& value, std::optional<protocol::Attempt>& attempt) {
  attempt = parseAttempt(value);
  return attempt.has_value();
}

bool setAge(const std::string& value, std::optional<std::chrono::milliseconds>& age) {
  constexpr int64_t MostSeconds = 1'000'000'000;
  const auto number = parseNumber(value);
  if (!number.has_value() || *number < 0 || *number > MostSeconds) {
    return false;
  }
  age = std::chrono::seconds(*number);
  return true;
}

bool setFlag(const std::string& value, bool& flag) {
  flag = value == "true";
  return flag || value == "false";
}

bool setLimit(const std::string& value, uint32_t& limit) {
  const auto number = parseNumber(value);
  if (!number.has_value() || *number < 1 || *number > MaxPageLimit) {
    return false;
  }
  limit = static_cast<uint32_t>(*number);
  return true;
}

Parameter text(std::optional<std::string>& target) {
  return {[&target](const std::string& value) {
            target = value;
            return true;
          },
          "text"};
}

// Errors are text in the store, which takes no other bytes.
bool setError(const std::string& value, std::optional<std::string>& error) {
  error = value;
  return fingerprint::isUtf8(value) && value.find('\0') == std::string::npos;
}

Parameter attemptParameter(std::optional<protocol::Attempt>& target) {
  return {[&target](const std::string& value) { return setAttempt(value, target); },
          "an attempt in decimal digits"};
}

Parameter limitParameter(uint32_t& target) {
  return {[&target](const std::string& value) { return setLimit(value, target); }, "1 to 500"};
}

// Appends name=value.
class QueryWriter {
public:
  void add(std::string_view name, std::string_view value) {
    text_ +=
        fmt::format("{}{}={}", text_.empty() ? "" : "&", std::string(name), encodePercent(value));
  }
  void add(std::string_view name, const std::optional<std::string>& value) {
    if (value.has_value()) {
      add(name, std::string_view(*value));
    }
  }
  void add(std::string_view name, const std::optional<protocol::Attempt>& attempt) {
    if (attempt.has_value()) {
      add(name, std::string_view(std::to_string(*attempt)));
    }
  }
  std::string text() const { return text_; }

private:
  std::string text_;
};

std::string joinStates(const std::vector<protocol::RecordState>& states) {
  std::string text;
  for (const protocol::RecordState state : states) {
    text += text.empty() ? "" : ",";
    text += stateName(state);
  }
  return text;
}

}  // namespace

absl::StatusOr<RecordQuery> parseRecordQuery(std::string_view query) {
  RecordQuery result;
  store::RecordFilter& filter = result.filter;
  const Parameters known = {
      {"state",
       {[&](const std::string& value) { return setStates(value, filter.states); },
        "states, separated by commas"}},
      {"tenant", text(filter.tenant)},
      {"operation", text(filter.operation)},
      {"key", text(filter.key)},
      {"key_hash", text(filter.key_hash)},
      {"attempt", attemptParameter(filter.attempt)},
      {"error",
       {[&](const std::string& value) { return setError(value, filter.error); }, "text in UTF-8"}},
      {"min_age_seconds",
       {[&](const std::string& value) { return setAge(value, filter.min_age); },
        "a whole number of seconds"}},
      {"dead_letter",
       {[&](const std::string& value) { return setFlag(value, filter.dead_letters_only); },
        "true or false"}},
      {"limit", limitParameter(result.limit)},
      {"cursor",
       {[&](const std::string& value) {
          result.after = parseRecordCursor(value);
          return result.after.has_value();
        },
        "next_cursor of the page before"}},
  };
  if (absl::Status status = parseQuery(query, known); !status.ok()) {
    return status;
  }
  return result;
}

std::string encodeRecordQuery(const RecordQuery& query) {
  const store::RecordFilter& filter = query.filter;
  QueryWriter writer;
  if (!filter.states.empty()) {
    writer.add("state", std::string_view(joinStates(filter.states)));
  }
  writer.add("tenant", filter.tenant);
  writer.add("operation", filter.operation);
  writer.add("key", filter.key);
  writer.add("key_hash", filter.key_hash);
  writer.add("attempt", filter.attempt);
  writer.add("error", filter.error);
  if (filter.min_age.has_value()) {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(*filter.min_age).count();
    writer.add("min_age_seconds", std::string_view(std::to_string(seconds)));
  }
  if (filter.dead_letters_only) {
    writer.add("dead_letter", std::string_view("true"));
  }
  writer.add("limit", std::string_view(std::to_string(query.limit)));
  if (query.after.has_value()) {
    writer.add("cursor", std::string_view(recordCursor(*query.after)));
  }
  return writer.text();
}

absl::StatusOr<AuditQuery> parseAuditQuery(std::string_view query) {
  AuditQuery result;
  const Parameters known = {
      {"tenant", text(result.filter.tenant)},
      {"operation", text(result.filter.operation)},
      {"key", text(result.filter.key)},
      {"attempt", attemptParameter(result.filter.attempt)},
      {"limit", limitParameter(result.limit)},
      {"cursor",
       {[&](const std::string& value) {
          result.before = parseAuditCursor(value);
          return result.before.has_value();
        },
        "next_cursor of the page before"}},
  };
  if (absl::Status status = parseQuery(query, known); !status.ok()) {
    return status;
  }
  return result;
}

std::string encodeAuditQuery(const AuditQuery& query) {
  QueryWriter writer;
  writer.add("tenant", query.filter.tenant);
  writer.add("operation", query.filter.operation);
  writer.add("key", query.filter.key);
  writer.add("attempt", query.filter.attempt);
  writer.add("limit", std::string_view(std::to_string(query.limit)));
  if (query.before.has_value()) {
    writer.add("cursor", std::string_view(auditCursor(*query.before)));
  }
  return writer.text();
}

}  // namespace idempotency::operator_api
