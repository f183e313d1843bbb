#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace idempotency {

// Where a record stands (design: states of a record). The numbers are stored in tables: never
// renumber. Absent is the lack of a row.
enum class RecordState : int16_t {
  InProgress = 1,       // An attempt holds the claim; its lease tells whether it is believed alive.
  Completed = 2,        // The result is known; the response is stored or a tombstone says why not.
  FailedRetryable = 3,  // The attempt failed without a result: the next request may claim again.
  Unknown = 4,          // An attempt may have run. No retry moves this.
  Expired = 5,          // Past its life, kept for audit, never replayed.
};

// What must be unique. Bytes, compared as they are. With scope TENANT the operation is empty.
struct Identity {
  std::string tenant;
  std::string operation;
  std::string key;
  auto operator<=>(const Identity&) const = default;
};

// A claim's fencing token: random, 1 … 2^63 - 1. Every write after the claim names it.
using Attempt = int64_t;

// Header and trailer fields in the order in which they were sent, names in lower case.
using FieldList = std::vector<std::pair<std::string, std::string>>;

// Why a completed record has no response to replay. Stored: never renumber.
enum class Tombstone : int16_t {
  None = 0,      // There is a response.
  TooLarge = 1,  // The body was over max_response_bytes.
  Secret = 2,    // The route's policy stores no responses.
  Unstorable =
      3,  // A header must not be replayed (CR, LF or NUL in it), or the status is not final.
  Abandoned = 4,  // No answer ever came: the record was given up at the end of its life.
};

// An answer of the upstream as it is stored and replayed.
struct StoredResponse {
  int32_t status = 0;
  FieldList headers;
  std::string body;
  FieldList trailers;
  bool operator==(const StoredResponse&) const = default;
};

}  // namespace idempotency
