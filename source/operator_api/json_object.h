#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <simdjson.h>

#include "source/protocol/record.h"

namespace idempotency::operator_api {

// Where mistakes in a JSON text are noted. The first one counts.
class JsonErrors {
public:
  void add(std::string_view path, std::string_view what);
  bool empty() const { return first_.empty(); }
  // InvalidArgument with the first mistake, or OK. The text never shows a value.
  absl::Status status() const;

private:
  std::string first_;
};

// Members of a JSON object by name. A member that is null counts as absent. What is required and
// absent, or of another type, is noted as a mistake, and an empty value stands for it.
class JsonObject {
public:
  // The path is for mistakes: empty for the whole text.
  JsonObject(simdjson::dom::object object, std::string path, JsonErrors& errors)
      : object_(object), path_(std::move(path)), errors_(&errors) {}

  bool has(std::string_view name);
  std::string text(std::string_view name);
  std::optional<std::string> optionalText(std::string_view name);
  // false if it is absent.
  bool flag(std::string_view name);
  int64_t number(std::string_view name);
  std::optional<int64_t> optionalNumber(std::string_view name);
  // Written as a number, possibly with decimals.
  std::chrono::milliseconds seconds(std::string_view name);
  std::optional<std::chrono::milliseconds> optionalSeconds(std::string_view name);
  // Written as a string of digits.
  std::optional<protocol::Attempt> optionalAttempt(std::string_view name);
  protocol::Attempt attempt(std::string_view name);
  std::optional<JsonObject> object(std::string_view name);
  // Empty if it is absent.
  std::vector<JsonObject> objects(std::string_view name);
  // The names of all members, in their order.
  std::vector<std::string> names() const;

  // Notes members that have not been asked for, that are null, or that are there twice: what their
  // sender meant is not known.
  void refuseOthers();
  // Notes a mistake in a member.
  void fail(std::string_view name, std::string_view what);

private:
  // Null if it is absent.
  std::optional<simdjson::dom::element> find(std::string_view name);
  bool need(std::string_view name, bool found);

  simdjson::dom::object object_;
  std::string path_;
  JsonErrors* errors_;
  std::vector<std::string> asked_;
};

// A parsed JSON text: an object. Its members live as long as it does.
class JsonText {
public:
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<JsonText>> parse(std::string_view text);
  JsonObject root(JsonErrors& errors) const { return {root_, "", errors}; }

private:
  JsonText() = default;

  simdjson::dom::parser parser_;
  simdjson::dom::object root_;
};

}  // namespace idempotency::operator_api
