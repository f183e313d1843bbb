#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace idempotency::model {

// Mistakes that the walks must find: each breaks one rule, so that a checker that cannot fail is
// noticed.
enum class Mutant : uint8_t {
  None,
  NoFencing,             // The store lets a write change a record of another attempt.
  NoCompare,             // A re-claim does not look whether the record is still as it was found.
  UnknownIsRetryable,    // An unknown outcome is treated as a failure.
  DeadLeaseIsRetried,    // A lease that ran out is claimed again without the policy's word.
  UnknownIsReleased,     // An outcome that is not known releases the claim.
  RetriesAreForgotten,   // Envoy's count of attempts is not looked at.
  UnsettledIsReaped,     // The reaper deletes what is past its life, settled or not.
  ClaimWithoutRecord,    // Two claims at once both succeed: look, then write.
  TenantIsIgnored,       // The tenant is not part of the identity.
  FingerprintIsIgnored,  // Every request with the key counts as the same.
};

inline constexpr std::array AllMutants = {
    Mutant::NoFencing,          Mutant::NoCompare,
    Mutant::UnknownIsRetryable, Mutant::DeadLeaseIsRetried,
    Mutant::UnknownIsReleased,  Mutant::RetriesAreForgotten,
    Mutant::UnsettledIsReaped,  Mutant::ClaimWithoutRecord,
    Mutant::TenantIsIgnored,    Mutant::FingerprintIsIgnored,
};

std::string_view name(Mutant mutant);

}  // namespace idempotency::model
