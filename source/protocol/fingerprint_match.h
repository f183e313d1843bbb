#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "source/fingerprint/fingerprint.h"
#include "source/protocol/decide.h"

namespace idempotency::protocol {

// Computes the request's fingerprint with an older version of the algorithm; none if this build
// does not know it.
using Recompute = std::function<std::optional<fingerprint::Fingerprint>(uint8_t version)>;

// Compares a request's fingerprint with the bytes in a record, by the version in their first byte.
// `recompute` is called only if that is not the version of `current`.
[[nodiscard]] FingerprintMatch matchFingerprint(std::string_view stored,
                                                const fingerprint::Fingerprint& current,
                                                const Recompute& recompute);

}  // namespace idempotency::protocol
