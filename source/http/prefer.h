#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace idempotency::http {

inline constexpr std::string_view PreferHeader = "prefer";
inline constexpr std::string_view PreferenceAppliedHeader = "preference-applied";

// What a client asks for with Prefer (RFC 7240), as far as the filter understands it.
struct Preferences {
  bool respond_async = false;
  std::optional<std::chrono::seconds> wait = {};
  // All other preferences, as the client wrote them, as the value of one Prefer header.
  std::string others = {};
};

// Reads all lines of the header. Of two preferences with the same name, the first counts. What does
// not follow the grammar is not understood, and kept with the others.
Preferences parsePreferences(std::span<const std::string_view> lines);

// The value of Preference-Applied for a request that may be answered before its response is there,
// and waits for so long. Empty: the client did not ask for it.
std::string preferenceApplied(const Preferences& preferences, std::chrono::milliseconds wait);

}  // namespace idempotency::http
