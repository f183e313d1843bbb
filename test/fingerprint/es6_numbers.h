#pragma once

#include <cstddef>
#include <string>

namespace idempotency::fingerprint {

// The published test sequence for numbers of RFC 8785, made from its definition (cyberphone/
// json-canonicalization, testdata/README.md): edge cases, then 2,000 doubles in a row, then random
// ones from a chain of SHA-256. Each becomes a line: its bits in hex, a comma, its canonical form
// by canonicalNumber(double).
//
// Only the SHA-256 of the lines is published. Every line is also put through canonicalNumber(text),
// which must not change it; the lines where it does are counted.
struct Es6Lines {
  std::string sha256;  // In hex.
  size_t bytes = 0;
  size_t changed = 0;
};
Es6Lines es6Lines(size_t count);

}  // namespace idempotency::fingerprint
