#pragma once

#include <optional>
#include <span>
#include <string>

#include "source/envoy/stream.h"
#include "source/protocol/name_source.h"

namespace idempotency {

// Reads a trusted name (the tenant, the principal) from the first source that has one. None: no
// source has. Worker thread, inside a request hook.
//
// A header must stand on exactly one line and not be empty: two lines mean that somebody besides
// the trusted filter wrote one, and which of them counts would be a guess, so no name is read at
// all then, from no other source either. Only `fixed` may give an empty name.
//
// Metadata may be text, a number or a bool. Integers from 2^53 on give no name, nor does any source
// after them: as Envoy keeps numbers, two tenants could have become one.
[[nodiscard]] std::optional<std::string> readName(envoy::Stream stream,
                                                  const envoy::HeaderLines& headers,
                                                  std::span<const NameSource> sources);

}  // namespace idempotency
