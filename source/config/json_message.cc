#include "source/config/json_message.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/message.h>
#include <google/protobuf/struct.pb.h>
#include <simdjson.h>

#include "api/idempotency/v1/idempotency.pb.h"
#include "source/config/duration_text.h"
#include "source/config/suggestion.h"
#include "source/http/header_names.h"

namespace idempotency::config {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using simdjson::dom::element;
using simdjson::dom::element_type;

// Far above any real config; keeps a mistake (or a fuzzer) from costing memory.
constexpr size_t MaxJsonBytes = 4 << 20;
constexpr size_t MaxDepth = 32;
constexpr size_t MaxNameShown = 64;

std::string kindOf(const element& value) {
  switch (value.type()) {
    case element_type::ARRAY:
      return "a list";
    case element_type::OBJECT:
      return "an object";
    case element_type::INT64:
    case element_type::UINT64:
    case element_type::DOUBLE:
      return "a number";
    case element_type::STRING:
      return "a string";
    case element_type::BOOL:
      return "a boolean";
    case element_type::NULL_VALUE:
      return "null";
  }
  return "a value";
}

// Scalars are shown as they are. Lists and objects may contain anything, so only their kind is
// shown.
std::string given(const element& value) {
  switch (value.type()) {
    case element_type::STRING:
      return quoteForError(std::string_view(value));
    case element_type::INT64:
    case element_type::UINT64:
    case element_type::DOUBLE:
    case element_type::BOOL:
      return simdjson::to_string(value);
    case element_type::ARRAY:
    case element_type::OBJECT:
    case element_type::NULL_VALUE:
      return kindOf(value);
  }
  return kindOf(value);
}

std::string given(const element& value, const FieldDescriptor& field) {
  return field.options().GetExtension(v1::sensitive) ? kindOf(value) : given(value);
}

std::optional<uint64_t> readDigits(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

// An integer in 0 … limit, written as an integer or as a number without a fraction.
std::optional<uint64_t> readUnsigned(const element& value, uint64_t limit, bool digits_allowed) {
  std::optional<uint64_t> number;
  if (value.is_uint64()) {
    number = uint64_t(value);
  } else if (value.is_double()) {
    const double real = double(value);
    // 2^64 itself does not fit; the comparison is exact since 2^64 is a double.
    if (real >= 0 && real < 18446744073709551616.0 && std::trunc(real) == real) {
      number = static_cast<uint64_t>(real);
    }
  } else if (value.is_string() && digits_allowed) {
    number = readDigits(std::string_view(value));
  }
  return number.has_value() && *number <= limit ? number : std::nullopt;
}

std::vector<std::string> valueNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    names.push_back(type.value(i)->name());
  }
  return names;
}

std::vector<std::string> fieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) {
    names.push_back(type.field(i)->name());
  }
  return names;
}

std::string oneOf(const std::vector<std::string>& names) {
  return names.empty() ? "no fields" : fmt::format("one of {}", fmt::join(names, ", "));
}

// " (did you mean OFF?)", or nothing.
std::string hint(const std::optional<std::string>& meant) {
  return meant.has_value() ? fmt::format(" (did you mean {}?)", *meant) : "";
}

// YAML reads OFF without quotes as false.
std::string enumAdvice(const EnumDescriptor& type, const element& value) {
  const bool meant_off = value.is_bool() && !bool(value) && type.FindValueByName("OFF") != nullptr;
  return oneOf(valueNames(type)) + (meant_off ? R"( (in YAML, write "OFF" in quotes))" : "");
}

std::optional<std::string> meantValue(const EnumDescriptor& type, const element& value) {
  if (!value.is_string()) {
    return std::nullopt;
  }
  const std::vector<std::string> names = valueNames(type);
  return std::optional<std::string>(closestName(std::string_view(value), names));
}

std::string oneofAdvice(const OneofDescriptor& oneof) {
  if (oneof.field_count() == 2) {
    return fmt::format("set either `{}` or `{}`, not both", oneof.field(0)->name(),
                       oneof.field(1)->name());
  }
  std::string names;
  for (int i = 0; i < oneof.field_count(); ++i) {
    names += fmt::format("{}`{}`", i == 0 ? "" : ", ", oneof.field(i)->name());
  }
  return fmt::format("set only one of {}", names);
}

const FieldDescriptor* findField(const Descriptor& type, std::string_view name) {
  const std::string text(name);
  if (const FieldDescriptor* field = type.FindFieldByName(text)) {
    return field;
  }
  for (int i = 0; i < type.field_count(); ++i) {
    if (type.field(i)->json_name() == text) {
      return type.field(i);
    }
  }
  return nullptr;
}

// A message that has a field of this name, one level below `type`; null if none or several have.
const FieldDescriptor* findParent(const Descriptor& type, std::string_view name) {
  const FieldDescriptor* parent = nullptr;
  for (int i = 0; i < type.field_count(); ++i) {
    const Descriptor* below =
        type.field(i)->is_repeated() ? nullptr : type.field(i)->message_type();
    if (below != nullptr && findField(*below, name) != nullptr) {
      if (parent != nullptr) {
        return nullptr;
      }
      parent = type.field(i);
    }
  }
  return parent;
}

// The path of the field that was probably meant: a misspelled one, or one a level too high.
std::optional<std::string> meantField(const Descriptor& type, std::string_view name,
                                      const std::string& path) {
  const std::vector<std::string> names = fieldNames(type);
  if (const auto closest = closestName(name, names)) {
    return joinPath(path, *closest);
  }
  if (const FieldDescriptor* parent = findParent(type, name)) {
    return joinPath(joinPath(path, parent->name()),
                    findField(*parent->message_type(), name)->name());
  }
  return std::nullopt;
}

class Reader {
public:
  explicit Reader(FieldErrors& errors) : errors_(errors) {}

  void readObject(const simdjson::dom::object& object, Message& message, const std::string& path);

private:
  void readField(const element& value, Message& message, const FieldDescriptor& field,
                 const std::string& path);
  void readList(const element& value, Message& message, const FieldDescriptor& field,
                const std::string& path);
  void readScalar(const element& value, Message& message, const FieldDescriptor& field,
                  const std::string& path);
  void readMessage(const element& value, Message& message, const FieldDescriptor& field,
                   const std::string& path);
  void readDuration(const element& value, Message& message, const std::string& path);
  void readListValue(const element& value, Message& message, const std::string& path);

  FieldErrors& errors_;
};

void Reader::readObject(const simdjson::dom::object& object, Message& message,
                        const std::string& path) {
  const Descriptor& type = *message.GetDescriptor();
  std::set<int> seen;
  std::set<int> oneofs;
  for (const auto& member : object) {
    const FieldDescriptor* field = findField(type, member.key);
    if (field == nullptr) {
      errors_.add(joinPath(path, http::isToken(member.key) && member.key.size() <= MaxNameShown
                                     ? std::string(member.key)
                                     : quoteForError(member.key)),
                  fmt::format("unknown field{}; expected {}",
                              hint(meantField(type, member.key, path)), oneOf(fieldNames(type))));
      continue;
    }
    const std::string field_path = joinPath(path, field->name());
    if (!seen.insert(field->number()).second) {
      errors_.add(field_path, "field is set twice");
      continue;
    }
    if (const auto* oneof = field->real_containing_oneof();
        oneof != nullptr && !oneofs.insert(oneof->index()).second) {
      errors_.add(path, oneofAdvice(*oneof));
      continue;
    }
    readField(member.value, message, *field, field_path);
  }
}

void Reader::readField(const element& value, Message& message, const FieldDescriptor& field,
                       const std::string& path) {
  if (value.is_null()) {
    errors_.add(path, "null is not allowed; omit the field");
  } else if (field.is_repeated()) {
    readList(value, message, field, path);
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    readMessage(value, *message.GetReflection()->MutableMessage(&message, &field), field, path);
  } else {
    readScalar(value, message, field, path);
  }
}

void Reader::readList(const element& value, Message& message, const FieldDescriptor& field,
                      const std::string& path) {
  if (!value.is_array()) {
    errors_.add(path, kindOf(value), "a list");
    return;
  }
  const simdjson::dom::array list = value;
  if (list.size() == 0) {
    errors_.add(path, "an empty list", "at least one entry (or omit the field)");
    return;
  }
  size_t index = 0;
  for (const element entry : list) {
    const std::string entry_path = indexPath(path, index++);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      readMessage(entry, *message.GetReflection()->AddMessage(&message, &field), field, entry_path);
    } else if (entry.is_string()) {
      message.GetReflection()->AddString(&message, &field, std::string(std::string_view(entry)));
    } else {
      errors_.add(entry_path, given(entry, field), "a string");
    }
  }
}

void Reader::readScalar(const element& value, Message& message, const FieldDescriptor& field,
                        const std::string& path) {
  const auto& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      if (value.is_bool()) {
        reflection.SetBool(&message, &field, bool(value));
      } else {
        errors_.add(path, given(value, field), "true or false");
      }
      return;
    case FieldDescriptor::CPPTYPE_UINT32:
      if (const auto number = readUnsigned(value, std::numeric_limits<uint32_t>::max(), false)) {
        reflection.SetUInt32(&message, &field, static_cast<uint32_t>(*number));
      } else {
        errors_.add(path, given(value, field), "a whole number from 0 to 4294967295");
      }
      return;
    case FieldDescriptor::CPPTYPE_UINT64:
      if (const auto number = readUnsigned(value, std::numeric_limits<uint64_t>::max(), true)) {
        reflection.SetUInt64(&message, &field, *number);
      } else {
        errors_.add(path, given(value, field), "a whole number of at least 0");
      }
      return;
    case FieldDescriptor::CPPTYPE_STRING:
      if (value.is_string()) {
        reflection.SetString(&message, &field, std::string(std::string_view(value)));
      } else {
        errors_.add(path, given(value, field), "a string");
      }
      return;
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* choice =
          value.is_string()
              ? field.enum_type()->FindValueByName(std::string(std::string_view(value)))
              : nullptr;
      if (choice != nullptr) {
        reflection.SetEnum(&message, &field, choice);
      } else {
        errors_.add(path, given(value, field) + hint(meantValue(*field.enum_type(), value)),
                    enumAdvice(*field.enum_type(), value));
      }
      return;
    }
    // The config has no fields of these types.
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  errors_.add(path, "this build cannot read the field");
}

void Reader::readMessage(const element& value, Message& message, const FieldDescriptor& field,
                         const std::string& path) {
  if (field.message_type() == google::protobuf::Duration::descriptor()) {
    readDuration(value, message, path);
  } else if (field.message_type() == google::protobuf::ListValue::descriptor()) {
    readListValue(value, message, path);
  } else if (value.is_object()) {
    readObject(value, message, path);
  } else {
    errors_.add(path, kindOf(value), "an object");
  }
}

void Reader::readDuration(const element& value, Message& message, const std::string& path) {
  const auto duration = value.is_string() ? parseDuration(std::string_view(value)) : std::nullopt;
  if (!duration.has_value()) {
    errors_.add(path, given(value), "a duration in seconds, such as \"30s\" or \"0.25s\"");
    return;
  }
  auto& target = static_cast<google::protobuf::Duration&>(message);
  target.set_seconds(duration->seconds);
  target.set_nanos(duration->nanos);
}

void Reader::readListValue(const element& value, Message& message, const std::string& path) {
  if (!value.is_array()) {
    errors_.add(path, kindOf(value), "a list");
    return;
  }
  auto& target = static_cast<google::protobuf::ListValue&>(message);
  size_t index = 0;
  for (const element entry : simdjson::dom::array(value)) {
    const std::string entry_path = indexPath(path, index++);
    if (entry.is_string()) {
      target.add_values()->set_string_value(std::string(std::string_view(entry)));
    } else if (entry.is_number()) {
      target.add_values()->set_number_value(entry.get_double().value());
    } else {
      errors_.add(entry_path, given(entry), "a string or a number");
    }
  }
}

}  // namespace

void readJson(std::string_view json, Message& message, FieldErrors& errors) {
  if (json.empty()) {
    return;
  }
  if (json.size() > MaxJsonBytes) {
    errors.add("config", fmt::format("{} bytes", json.size()),
               fmt::format("at most {} bytes of JSON", MaxJsonBytes));
    return;
  }
  simdjson::dom::parser parser(MaxJsonBytes);
  element root;
  auto error = parser.allocate(json.size(), MaxDepth);
  if (!error) {
    error = parser.parse(json.data(), json.size()).get(root);
  }
  if (error) {
    errors.add("config", fmt::format("not valid JSON ({}); expected a JSON object",
                                     simdjson::error_message(error)));
    return;
  }
  if (!root.is_object()) {
    errors.add("config", kindOf(root), "a JSON object");
    return;
  }
  Reader(errors).readObject(root, message, "");
}

}  // namespace idempotency::config
