#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "source/protocol/record.h"

namespace idempotency::fuzz {

// What really became of an attempt, whatever the filter makes of it.
enum class Truth : uint8_t {
  NotBegun,  // The request did not go on.
  Running,
  NeverSent,   // It went on, and surely reached nobody.
  Answered,    // The whole answer came.
  CutByEnvoy,  // It ran, its status is known, its answer is lost.
  Lost,        // It may have run.
};

std::string_view name(Truth truth);

// The upstream's whole answer; with CutByEnvoy what is known of it.
struct WholeAnswer {
  int judged_status = 0;  // What the policy's lists look at.
  uint64_t attempts = 1;
  Tombstone tombstone = Tombstone::None;  // Why it cannot be replayed.
  StoredResponse response;                // As it must be stored.
};

// What a record may say of an attempt: each truth allows one of these, Running none.
bool allowsRelease(Truth truth, const std::optional<WholeAnswer>& answer);
bool allowsFailure(Truth truth, const std::optional<WholeAnswer>& answer);
bool allowsUnknown(Truth truth, const std::optional<WholeAnswer>& answer);
bool allowsCompletion(Truth truth, const std::optional<WholeAnswer>& answer);

}  // namespace idempotency::fuzz
