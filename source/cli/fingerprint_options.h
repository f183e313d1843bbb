#pragma once

#include <string>
#include <string_view>

#include <absl/status/statusor.h>

#include "source/cli/arguments.h"
#include "source/cli/request_text.h"
#include "source/fingerprint/fingerprint.h"

namespace idempotency {

// The options that say what of a request counts; `fingerprint` and `fingerprint diff` both have
// them.
inline constexpr Option ModeOption = {"mode", "canonical|raw|selected|none",
                                      "how the body counts; canonical by default"};
inline constexpr Option PointerOption = {
    "pointer", "POINTER", "mode selected: a JSON Pointer to a value that counts", true};
inline constexpr Option ExcludePointerOption = {
    "exclude-pointer", "POINTER", "mode canonical: a JSON Pointer to a value that does not count",
    true};
inline constexpr Option CountHeaderOption = {"count-header", "NAME", "a request header that counts",
                                             true};

// Reads these options. The same combinations are refused as in the filter's config.
absl::StatusOr<FingerprintRules> readFingerprintRules(const Arguments& arguments);

// What goes into the fingerprint of a request. The principal counts if the rules say so.
absl::StatusOr<FingerprintExplanation> explainRequest(const RequestText& request,
                                                      const FingerprintRules& rules,
                                                      std::string_view principal);

}  // namespace idempotency
