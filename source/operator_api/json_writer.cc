#include "source/operator_api/json_writer.h"

#include <fmt/format.h>

#include "source/fingerprint/json_escape.h"
#include "source/operator_api/text.h"

namespace idempotency::operator_api {
namespace {

constexpr int64_t MillisPerSecond = 1000;

std::string quoted(std::string_view text) {
  return '"' + fingerprint::canonicalString(text) + '"';
}

// As few decimals as the value needs.
std::string formatSeconds(std::chrono::milliseconds value) {
  const int64_t millis = value.count();
  std::string text = fmt::format("{}{}", millis < 0 ? "-" : "", std::abs(millis) / MillisPerSecond);
  if (const int64_t rest = std::abs(millis) % MillisPerSecond; rest != 0) {
    text += fmt::format(".{:03}", rest);
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text;
}

}  // namespace

void JsonWriter::begin(std::string_view name) {
  if (!first_) {
    json_ += ',';
  }
  first_ = false;
  if (!name.empty()) {
    json_ += quoted(name);
    json_ += ':';
  }
}

void JsonWriter::beginObject(std::string_view name) {
  begin(name);
  json_ += '{';
  first_ = true;
}

void JsonWriter::endObject() {
  json_ += '}';
  first_ = false;
}

void JsonWriter::beginArray(std::string_view name) {
  begin(name);
  json_ += '[';
  first_ = true;
}

void JsonWriter::endArray() {
  json_ += ']';
  first_ = false;
}

void JsonWriter::text(std::string_view name, std::string_view value) {
  raw(name, quoted(shownText(value)));
}

void JsonWriter::number(std::string_view name, int64_t value) {
  raw(name, fmt::format("{}", value));
}

void JsonWriter::count(std::string_view name, uint64_t value) {
  raw(name, fmt::format("{}", value));
}

void JsonWriter::flag(std::string_view name, bool value) {
  raw(name, value ? "true" : "false");
}

void JsonWriter::seconds(std::string_view name, std::chrono::milliseconds value) {
  raw(name, formatSeconds(value));
}

void JsonWriter::null(std::string_view name) {
  raw(name, "null");
}

void JsonWriter::raw(std::string_view name, std::string_view json) {
  begin(name);
  json_ += json;
}

}  // namespace idempotency::operator_api
