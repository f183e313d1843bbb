#include "source/fingerprint/json_rejection.h"

namespace idempotency::fingerprint {

std::string_view describe(JsonRejection rejection) {
  switch (rejection) {
    case JsonRejection::None:
      return "not rejected";
    case JsonRejection::Malformed:
      return "malformed JSON";
    case JsonRejection::BadUtf8:
      return "a string that is not UTF-8";
    case JsonRejection::LoneSurrogate:
      return "a lone surrogate";
    case JsonRejection::DuplicateName:
      return "two members of one name";
    case JsonRejection::InexactNumber:
      return "a number that a double cannot hold exactly as written";
    case JsonRejection::TooDeep:
      return "nested too deeply";
    case JsonRejection::TooLarge:
      return "too large to be read as JSON";
  }
  return "unknown";
}

}  // namespace idempotency::fingerprint
