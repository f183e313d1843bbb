#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "source/fingerprint/fingerprint.h"
#include "source/protocol/decide.h"

namespace idempotency {

// Computes the request's fingerprint by an older version of the algorithm; none if this build does
// not know it.
using Recompute = std::function<std::optional<Fingerprint>(uint8_t version)>;

// Compares a request's fingerprint with the bytes that a record holds, by the version in the
// record's first byte. `recompute` is called only if that is not the version of `current`.
[[nodiscard]] FingerprintMatch matchFingerprint(std::string_view stored, const Fingerprint& current,
                                                const Recompute& recompute);

}  // namespace idempotency
