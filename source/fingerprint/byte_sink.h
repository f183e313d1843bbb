#pragma once

#include <string_view>

namespace idempotency::fingerprint {

// Takes bytes piece by piece. The boundaries between pieces have no meaning.
class ByteSink {
public:
  virtual ~ByteSink() = default;
  virtual void append(std::string_view bytes) = 0;
};

}  // namespace idempotency::fingerprint
