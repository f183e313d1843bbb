#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace idempotency::operator_api {

// Writes JSON from front to back. The name is that of the member; inside an array and at the top it
// is empty.
class JsonWriter {
public:
  void beginObject(std::string_view name = {});
  void endObject();
  void beginArray(std::string_view name = {});
  void endArray();

  // Any bytes: see shownText().
  void text(std::string_view name, std::string_view value);
  void number(std::string_view name, int64_t value);
  void count(std::string_view name, uint64_t value);
  void flag(std::string_view name, bool value);
  void seconds(std::string_view name, std::chrono::milliseconds value);
  void null(std::string_view name);
  // A value that is JSON already.
  void raw(std::string_view name, std::string_view json);

  // What has been written so far.
  const std::string& json() const { return json_; }

private:
  void begin(std::string_view name);

  std::string json_;
  bool first_ = true;  // Nothing has been written at this level.
};

}  // namespace idempotency::operator_api
