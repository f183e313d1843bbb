#include "source/http/header_names.h"

#include <algorithm>
#include <array>

namespace idempotency::http {
namespace {

bool isTokenCharacter(char c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) {
    return true;
  }
  return std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

}  // namespace

bool isOwnHeader(std::string_view lower_name) {
  static constexpr std::array Names = {KeyHeader,      AttemptHeader, RecoveryPointHeader,
                                       ReplayedHeader, ExpiresHeader, StoredHeader,
                                       EnforcedHeader, OutcomeHeader, RunHeader};
  return std::find(Names.begin(), Names.end(), lower_name) != Names.end();
}

bool isHostHeader(std::string_view lower_name) {
  return lower_name == "host" || lower_name == ":authority";
}

bool isToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), isTokenCharacter);
}

std::string toLower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') {
      c = static_cast<char>(c - 'A' + 'a');
    }
  }
  return lower;
}

}  // namespace idempotency::http
