#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

#include "source/cli/arguments.h"
#include "source/cli/request_text.h"
#include "source/fingerprint/fingerprint.h"

namespace idempotency::cli {

// The options that select what is compared; `fingerprint` and `fingerprint diff` share them.
inline constexpr Option ModeOption = {"mode", "canonical|raw|selected|none",
                                      "how the body is compared (default: canonical)"};
inline constexpr Option PointerOption = {"pointer", "POINTER",
                                         "mode selected: JSON Pointer to a value to compare", true};
inline constexpr Option ExcludePointerOption = {
    "exclude-pointer", "POINTER", "mode canonical: JSON Pointer to a value to ignore", true};
inline constexpr Option CountHeaderOption = {"count-header", "NAME", "request header to compare",
                                             true};
inline constexpr Option QueryOption = {"query", "sorted|as-sent",
                                       "how the query is compared (default: sorted)"};
inline constexpr Option NoAuthorityOption = {"no-authority", "", "ignore the Host"};
inline constexpr Option SchemeOption = {"scheme", "http|https",
                                        "scheme whose default port is ignored (default: https)"};
inline constexpr Option AlgorithmOption = {"algorithm", "1|2", "version of the algorithm"};

// Reads these options. Refuses the same combinations as the filter's config.
absl::StatusOr<fingerprint::FingerprintRules> readFingerprintRules(const Arguments& arguments);

// How to look at a request, in addition to the rules.
struct FingerprintView {
  std::string_view scheme;
  std::optional<uint8_t> version;  // None if the option is not set.
};
absl::StatusOr<FingerprintView> readFingerprintView(const Arguments& arguments);

// The fingerprint of a request and its parts. The principal is included if the rules say so.
absl::StatusOr<fingerprint::FingerprintExplanation> explainRequest(
    const RequestText& request, const fingerprint::FingerprintRules& rules,
    const FingerprintView& view, std::string_view principal);

}  // namespace idempotency::cli
