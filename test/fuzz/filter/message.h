#pragma once

#include <string>

#include "source/protocol/record.h"

namespace idempotency::fuzz {

// A request or an answer, as one side has given it or as the other side has got it so far.
struct Message {
  bool begun = false;  // The headers are there.
  protocol::FieldList headers;
  std::string body;
  protocol::FieldList trailers;
  bool whole = false;

  std::string header(std::string_view name) const {
    for (const auto& [field, value] : headers) {
      if (field == name) {
        return value;
      }
    }
    return {};
  }
};

}  // namespace idempotency::fuzz
