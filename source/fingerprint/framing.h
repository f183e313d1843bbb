#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/fingerprint/byte_sink.h"
#include "source/fingerprint/sha256.h"

namespace idempotency::fingerprint {

// The kinds of parts of a fingerprint. The values are hashed: never renumber them.
enum class PartKind : uint8_t {
  Version = 1,
  Method = 2,
  Path = 3,
  Query = 4,        // Missing if the request has none.
  MediaType = 5,    // Missing if the request has none.
  HeaderName = 6,   // Each header to compare, present or not, then its values.
  HeaderValue = 7,  // One per header line.
  Principal = 8,
  Authority = 9,     // Missing if it is not compared, or if the request has none.
  QueryAsSent = 10,  // Instead of Query, if the order of parameters matters.
  BodyEmpty = 16,
  BodyBytes = 17,
  BodyCanonicalJson = 18,
  BodyRejectedJson = 19,  // Raw bytes, distinct from the canonical form of any body.
  BodyIgnored = 20,
  BodySelected = 21,   // Each pointer to compare, then its value.
  SelectedValue = 22,  // In canonical JSON.
  SelectedAbsent = 23,
};

// Takes the parts of a request one by one. begin() gives the size of a part; its bytes follow by
// append(), in any number of pieces.
class PartSink : public ByteSink {
public:
  virtual void begin(PartKind kind, uint64_t size) = 0;

  void add(PartKind kind, std::string_view bytes) {
    begin(kind, bytes.size());
    append(bytes);
  }
};

// Hashes parts: for each its kind (1 byte), its size (8 bytes, big-endian) and its bytes. Because
// each part states its size, different lists of parts never produce the same bytes.
class PartHasher : public PartSink {
public:
  void begin(PartKind kind, uint64_t size) override;
  void append(std::string_view bytes) override;

  // None if OpenSSL failed. Call it once.
  [[nodiscard]] std::optional<Sha256Digest> finish();

private:
  void flush();

  Sha256 sha_;
  size_t used_ = 0;
  std::array<char, 512> buffer_;  // Each call of OpenSSL costs a few dozen nanoseconds.
};

}  // namespace idempotency::fingerprint
