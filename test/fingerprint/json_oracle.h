#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace idempotency::fingerprint {

// What a second JSON reader, simdjson, says of a text, made canonical by the plainest code there
// is.
struct OracleAnswer {
  bool accepted = false;
  bool number_error =
      false;  // Not accepted because of a number; it may be only too large for simdjson.
  bool has_duplicates = false;  // An object has two members of one name.
  size_t depth = 0;
  std::string canonical;  // Numbers rounded to doubles.
};
OracleAnswer askOracle(std::string_view text);

// The value that a JSON Pointer names, canonical as above; none if there is none. The text must be
// one that the oracle accepts.
std::optional<std::string> askOracleAt(std::string_view text, std::string_view pointer);

// Compares what CanonicalJson makes of a text with what simdjson does. Empty if they agree, else
// what is wrong. They may differ in this, by intent:
// - simdjson takes duplicate names, numbers that a double rounds, and deeper nesting;
// - simdjson refuses numbers beyond 64 bits or doubles, even where these are exact (1 and 40
// zeros).
std::string disagreement(std::string_view text);

}  // namespace idempotency::fingerprint
