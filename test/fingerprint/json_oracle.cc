#include "test/fingerprint/json_oracle.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include <simdjson.h>

#include "source/fingerprint/json_escape.h"
#include "source/fingerprint/number.h"
#include "test/fingerprint/canonicalize.h"

namespace idempotency::fingerprint {
namespace {

using simdjson::dom::element_type;

std::u16string utf16(std::string_view utf8) {
  std::u16string units;
  for (size_t i = 0; i < utf8.size();) {
    const auto lead = static_cast<uint8_t>(utf8[i]);
    const size_t size = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    uint32_t c = size == 1 ? lead : lead & (0xff >> (size + 1));
    for (size_t k = 1; k < size; ++k) {
      c = c << 6 | (static_cast<uint8_t>(utf8[i + k]) & 0x3f);
    }
    i += size;
    if (c >= 0x10000) {
      units += static_cast<char16_t>(0xd800 + ((c - 0x10000) >> 10));
      c = 0xdc00 + ((c - 0x10000) & 0x3ff);
    }
    units += static_cast<char16_t>(c);
  }
  return units;
}

class Serializer {
public:
  explicit Serializer(OracleAnswer& answer) : answer_(answer) {}

  void write(simdjson::dom::element element, size_t depth) {
    switch (element.type()) {
      case element_type::ARRAY:
        return writeArray(element.get_array(), depth + 1);
      case element_type::OBJECT:
        return writeObject(element.get_object(), depth + 1);
      case element_type::STRING:
        return writeString(element.get_string());
      case element_type::INT64:
        return writeNumber(static_cast<double>(int64_t{element.get_int64()}));
      case element_type::UINT64:
        return writeNumber(static_cast<double>(uint64_t{element.get_uint64()}));
      case element_type::DOUBLE:
        return writeNumber(element.get_double());
      case element_type::BOOL:
        answer_.canonical += bool{element.get_bool()} ? "true" : "false";
        return;
      case element_type::NULL_VALUE:
        answer_.canonical += "null";
        return;
    }
  }

private:
  void writeArray(simdjson::dom::array array, size_t depth) {
    answer_.depth = std::max(answer_.depth, depth);
    const char* separator = "[";
    for (const simdjson::dom::element element : array) {
      answer_.canonical += std::exchange(separator, ",");
      write(element, depth);
    }
    answer_.canonical += *separator == '[' ? "[]" : "]";
  }

  void writeObject(simdjson::dom::object object, size_t depth) {
    answer_.depth = std::max(answer_.depth, depth);
    std::vector<std::pair<std::u16string, simdjson::dom::key_value_pair>> members;
    for (const simdjson::dom::key_value_pair member : object) {
      members.emplace_back(utf16(member.key), member);
    }
    std::stable_sort(members.begin(), members.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    const char* separator = "{";
    for (size_t i = 0; i < members.size(); ++i) {
      answer_.has_duplicates =
          answer_.has_duplicates || (i > 0 && members[i].first == members[i - 1].first);
      answer_.canonical += std::exchange(separator, ",");
      writeString(members[i].second.key);
      answer_.canonical += ':';
      write(members[i].second.value, depth);
    }
    answer_.canonical += *separator == '{' ? "{}" : "}";
  }

  void writeString(std::string_view text) {
    answer_.canonical += '"' + canonicalString(text) + '"';
  }

  void writeNumber(double value) {
    std::array<char, MaxCanonicalNumber> text;
    answer_.canonical.append(text.data(), canonicalNumber(value, text.data()));
  }

  OracleAnswer& answer_;
};

// How long a number is by the grammar of JSON, written as it reads there; 0 if there is none.
size_t numberSize(std::string_view text) {
  size_t i = 0;
  const auto digits = [text, &i] {
    const size_t begin = i;
    while (i < text.size() && text[i] >= '0' && text[i] <= '9') {
      ++i;
    }
    return i > begin;
  };
  const auto skip = [text, &i](std::string_view any) {
    const bool found = i < text.size() && any.find(text[i]) != std::string_view::npos;
    i += found ? 1 : 0;
    return found;
  };
  skip("-");
  if (!skip("0") && !digits()) {
    return 0;
  }
  if (skip(".") && !digits()) {
    return 0;
  }
  if (skip("eE")) {
    skip("+-");
    if (!digits()) {
      return 0;
    }
  }
  return i;
}

// Puts 0 in place of every number.
std::string withoutNumbers(std::string_view text) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    const size_t number = in_string ? 0 : numberSize(text.substr(i));
    if (number > 0) {
      out += '0';
      i += number;
      continue;
    }
    if (in_string && text[i] == '\\') {
      out += text[i++];
    } else if (text[i] == '"') {
      in_string = !in_string;
    }
    out += text.substr(i++, 1);
  }
  return out;
}

std::string disagreementOnAccepted(std::string_view text, const std::string& canonical,
                                   const OracleAnswer& oracle) {
  if (oracle.number_error) {
    return askOracle(withoutNumbers(text)).accepted
               ? ""
               : "accepted what is malformed even without its numbers";
  }
  if (!oracle.accepted) {
    return "accepted what the oracle refuses";
  }
  if (oracle.has_duplicates) {
    return "accepted duplicate names";
  }
  return canonical == oracle.canonical ? "" : canonical + " is not " + oracle.canonical;
}

}  // namespace

OracleAnswer askOracle(std::string_view text) {
  OracleAnswer answer;
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  const simdjson::error_code error = parser.parse(simdjson::padded_string(text)).get(root);
  answer.accepted = error == simdjson::SUCCESS;
  answer.number_error = error == simdjson::NUMBER_ERROR || error == simdjson::NUMBER_OUT_OF_RANGE;
  if (answer.accepted) {
    Serializer(answer).write(root, 0);
  }
  return answer;
}

std::optional<std::string> askOracleAt(std::string_view text, std::string_view pointer) {
  simdjson::dom::parser parser;
  simdjson::dom::element value;
  const simdjson::padded_string padded(text);
  if (parser.parse(padded).at_pointer(pointer).get(value) != simdjson::SUCCESS) {
    return std::nullopt;
  }
  OracleAnswer answer;
  Serializer(answer).write(value, 0);
  return answer.canonical;
}

std::string disagreement(std::string_view text) {
  const OracleAnswer oracle = askOracle(text);
  CanonicalJson json;
  switch (json.read({&text, 1})) {
    case JsonRejection::None:
      return disagreementOnAccepted(text, written(json, json.whole()), oracle);
    case JsonRejection::Malformed:
    case JsonRejection::BadUtf8:
    case JsonRejection::LoneSurrogate:
      return oracle.accepted ? "rejected what the oracle takes" : "";
    case JsonRejection::DuplicateName:
      return oracle.accepted && !oracle.has_duplicates ? "there are no duplicate names" : "";
    case JsonRejection::InexactNumber:
      return "";  // Numbers have tests of their own.
    case JsonRejection::TooDeep:
      return oracle.accepted && oracle.depth <= MaxJsonDepth ? "it is not too deep" : "";
    case JsonRejection::TooLarge:
      return text.size() <= MaxJsonSize ? "it is not too large" : "";
  }
  return "unknown answer";
}

}  // namespace idempotency::fingerprint
