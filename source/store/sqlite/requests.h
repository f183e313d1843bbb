#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "source/store/store.h"

namespace idempotency::sqlite {

// The arguments of those operations that have no struct in store.h.

struct ReleaseRequest {
  ClaimRef claim;
};

struct ExtendRequest {
  std::vector<ClaimRef> claims;
  std::chrono::milliseconds lease{0};
};

struct LookUpRequest {
  Identity identity;
};

struct LeadRequest {
  std::string owner;
  std::chrono::milliseconds lease{0};
};

struct SweepRequest {
  uint32_t limit = 0;
  std::optional<std::chrono::milliseconds> reconcile_after;
};

struct ReapRequest {
  uint32_t limit = 0;
  bool soft = false;
};

}  // namespace idempotency::sqlite
