#pragma once

#include <optional>
#include <span>
#include <string>

#include "source/envoy/stream.h"
#include "source/protocol/name_source.h"

namespace idempotency::filter {

// Reads a trusted name (of the tenant, of the principal) from the first source that has one. None
// if no source has one. Worker thread, inside a request hook.
//
// A header must have exactly one line and not be empty. Two lines mean that not only the trusted
// filter wrote it, and choosing one of them would be a guess: then there is no name, not even from
// another source. A comma counts as the end of a line, because proxies may join lines with it (RFC
// 9110 §5.3), and Envoy itself does so for some headers, such as `authorization`. Only `fixed` may
// give an empty name.
//
// Metadata may be text, a number or a boolean. Integers of 2^53 or more give no name, and later
// sources are not used either: Envoy stores numbers as doubles, so two tenants could become one.
[[nodiscard]] std::optional<std::string> readName(envoy::Stream stream,
                                                  const envoy::HeaderLines& headers,
                                                  std::span<const protocol::NameSource> sources);

}  // namespace idempotency::filter
