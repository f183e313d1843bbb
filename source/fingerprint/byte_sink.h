#pragma once

#include <string_view>

namespace idempotency {

// Takes bytes that come piece by piece. Where one piece ends and the next begins means nothing.
class ByteSink {
public:
  virtual ~ByteSink() = default;
  virtual void append(std::string_view bytes) = 0;
};

}  // namespace idempotency
