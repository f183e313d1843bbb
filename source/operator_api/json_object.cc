#include "source/operator_api/json_object.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

#include "source/operator_api/text.h"

namespace idempotency::operator_api {
namespace {

using simdjson::dom::element;

// A stored response in base64, with room for the rest.
constexpr size_t MaxJsonBytes = size_t{128} << 20;
constexpr size_t MaxDepth = 16;
constexpr size_t MaxNameShown = 64;
constexpr double MillisPerSecond = 1000;
constexpr double MostSeconds = 1e12;  // Far above any duration, and exact in milliseconds.

// JSON does not tell 200 from 200.0 or 2e2, and some clients write them so.
std::optional<int64_t> wholeNumber(element member) {
  constexpr double Exact = 9007199254740992;  // From here on, doubles leave numbers out.
  int64_t whole = 0;
  double number = 0;
  if (member.get(whole) == simdjson::SUCCESS) {
    return whole;
  }
  if (member.get(number) != simdjson::SUCCESS || std::abs(number) >= Exact ||
      number != std::trunc(number)) {
    return std::nullopt;
  }
  return static_cast<int64_t>(number);
}

std::string joined(const std::string& path, std::string_view name) {
  const std::string shown = shownText(name.substr(0, MaxNameShown));
  return path.empty() ? shown : fmt::format("{}.{}", path, shown);
}

}  // namespace

void JsonErrors::add(std::string_view path, std::string_view what) {
  if (first_.empty()) {
    first_ = path.empty() ? std::string(what) : fmt::format("{}: {}", path, what);
  }
}

absl::Status JsonErrors::status() const {
  return empty() ? absl::OkStatus() : absl::InvalidArgumentError(first_);
}

bool JsonObject::has(std::string_view name) {
  return find(name).has_value();
}

std::string JsonObject::text(std::string_view name) {
  const auto value = optionalText(name);
  need(name, value.has_value());
  return value.value_or("");
}

std::optional<std::string> JsonObject::optionalText(std::string_view name) {
  const auto member = find(name);
  std::string_view value;
  if (!member.has_value()) {
    return std::nullopt;
  }
  if (member->get(value) != simdjson::SUCCESS) {
    fail(name, "must be a string");
    return std::nullopt;
  }
  return std::string(value);
}

bool JsonObject::flag(std::string_view name) {
  const auto member = find(name);
  bool value = false;
  if (member.has_value() && member->get(value) != simdjson::SUCCESS) {
    fail(name, "must be true or false");
  }
  return value;
}

int64_t JsonObject::number(std::string_view name) {
  const auto value = optionalNumber(name);
  need(name, value.has_value());
  return value.value_or(0);
}

std::optional<int64_t> JsonObject::optionalNumber(std::string_view name) {
  const auto member = find(name);
  if (!member.has_value()) {
    return std::nullopt;
  }
  const auto value = wholeNumber(*member);
  if (!value.has_value()) {
    fail(name, "must be a whole number");
  }
  return value;
}

std::chrono::milliseconds JsonObject::seconds(std::string_view name) {
  const auto value = optionalSeconds(name);
  need(name, value.has_value());
  return value.value_or(std::chrono::milliseconds(0));
}

std::optional<std::chrono::milliseconds> JsonObject::optionalSeconds(std::string_view name) {
  const auto member = find(name);
  double value = 0;
  if (!member.has_value()) {
    return std::nullopt;
  }
  if (member->get(value) != simdjson::SUCCESS || value < 0 || value > MostSeconds) {
    fail(name, "must be a number of seconds");
    return std::nullopt;
  }
  return std::chrono::milliseconds(std::llround(value * MillisPerSecond));
}

std::optional<protocol::Attempt> JsonObject::optionalAttempt(std::string_view name) {
  const auto digits = optionalText(name);
  if (!digits.has_value()) {
    return std::nullopt;
  }
  const auto attempt = parseAttempt(*digits);
  if (!attempt.has_value()) {
    fail(name, "must be an attempt, as a string of decimal digits");
  }
  return attempt;
}

protocol::Attempt JsonObject::attempt(std::string_view name) {
  const auto value = optionalAttempt(name);
  need(name, value.has_value());
  return value.value_or(0);
}

std::optional<JsonObject> JsonObject::object(std::string_view name) {
  const auto member = find(name);
  simdjson::dom::object value;
  if (!member.has_value()) {
    return std::nullopt;
  }
  if (member->get(value) != simdjson::SUCCESS) {
    fail(name, "must be an object");
    return std::nullopt;
  }
  return JsonObject(value, joined(path_, name), *errors_);
}

std::vector<JsonObject> JsonObject::objects(std::string_view name) {
  const auto member = find(name);
  simdjson::dom::array value;
  std::vector<JsonObject> found;
  if (!member.has_value()) {
    return found;
  }
  if (member->get(value) != simdjson::SUCCESS) {
    fail(name, "must be a list");
    return found;
  }
  for (const element entry : value) {
    simdjson::dom::object object;
    if (entry.get(object) != simdjson::SUCCESS) {
      fail(name, "must be a list of objects");
      return {};
    }
    found.emplace_back(object, fmt::format("{}[{}]", joined(path_, name), found.size()), *errors_);
  }
  return found;
}

std::vector<std::string> JsonObject::names() const {
  std::vector<std::string> found;
  for (const auto& member : object_) {
    found.emplace_back(member.key);
  }
  return found;
}

// Ends with the first mistake, so that a body full of them costs no more than its size.
void JsonObject::refuseOthers() {
  std::vector<std::string> seen;
  for (const auto& member : object_) {
    const std::string name(member.key);
    if (member.value.is_null()) {
      fail(name, "must not be null; leave it out");
    }
    if (std::find(asked_.begin(), asked_.end(), name) == asked_.end()) {
      return fail(name, "unknown member");
    }
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
      return fail(name, "is there twice");
    }
    seen.push_back(name);
  }
}

void JsonObject::fail(std::string_view name, std::string_view what) {
  errors_->add(joined(path_, name), what);
}

std::optional<element> JsonObject::find(std::string_view name) {
  asked_.emplace_back(name);
  for (const auto& member : object_) {
    if (member.key == name) {
      return member.value.is_null() ? std::nullopt : std::optional(member.value);
    }
  }
  return std::nullopt;
}

bool JsonObject::need(std::string_view name, bool found) {
  if (!found) {
    fail(name, "is required");
  }
  return found;
}

absl::StatusOr<std::unique_ptr<JsonText>> JsonText::parse(std::string_view text) {
  std::unique_ptr<JsonText> parsed(new JsonText);
  if (text.size() > MaxJsonBytes) {
    return absl::InvalidArgumentError("the JSON text is too long");
  }
  auto error = parsed->parser_.allocate(text.size(), MaxDepth);
  element root;
  if (!error) {
    error = parsed->parser_.parse(text.data(), text.size()).get(root);
  }
  if (error) {
    return absl::InvalidArgumentError("the text is not valid JSON");
  }
  if (root.get(parsed->root_) != simdjson::SUCCESS) {
    return absl::InvalidArgumentError("the JSON text must be an object");
  }
  return parsed;
}

}  // namespace idempotency::operator_api
