#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace idempotency::protocol {

// The state of a record. The numbers are stored in tables: never renumber. Absent means that there
// is no row.
enum class RecordState : int16_t {
  InProgress = 1,       // An attempt holds the claim; its lease shows whether it is alive.
  Completed = 2,        // The result is known; the response is stored, or a tombstone says why not.
  FailedRetryable = 3,  // The attempt failed without a result: the next request may claim again.
  Unknown = 4,          // An attempt may have run. Neither a retry nor time changes this.
  Expired = 5,          // Expired, kept for audit, never replayed.
};

// Whether a record is ignored, so that its key can start again. `past_life`: its expiry has passed.
// An unsettled record is never ignored, because time alone does not show whether an attempt ran.
[[nodiscard]] bool isOver(RecordState state, bool past_life);

// What must be unique. Compared byte by byte. With scope TENANT, the operation is empty.
struct Identity {
  std::string tenant;
  std::string operation;
  std::string key;
  auto operator<=>(const Identity&) const = default;
};

// The fencing token of a claim: random, 1 … 2^63 - 1. Every write after the claim contains it.
using Attempt = int64_t;

// Header and trailer fields in the order in which they were sent, names in lower case.
using FieldList = std::vector<std::pair<std::string, std::string>>;
// A field as Envoy provides it: a name in lower case and a value. Both belong to Envoy.
using FieldView = std::pair<std::string_view, std::string_view>;

// Why a completed record has no response to replay. Stored: never renumber.
enum class Tombstone : int16_t {
  None = 0,      // There is a response.
  TooLarge = 1,  // The body exceeded max_response_bytes.
  Secret = 2,    // The route's policy does not store responses.
  Unstorable =
      3,  // A header must not be replayed (CR, LF or NUL in it), or the status is not final.
  // 4 is reserved: earlier versions wrote it to unknown records when they expired.
};

// A response of the upstream as it is stored and replayed.
struct StoredResponse {
  int32_t status = 0;
  FieldList headers;
  std::string body;
  FieldList trailers;
  bool operator==(const StoredResponse&) const = default;
};

// The version of the format in which this build writes stored responses. It can read this one and
// all earlier ones.
inline constexpr int16_t ResponseSchema = 1;

}  // namespace idempotency::protocol
