#pragma once

#include <cstddef>
#include <string>
#include <variant>

namespace idempotency::protocol {

// The longest name in bytes: of a tenant, of an operation, and of what a config refers to.
inline constexpr size_t NameLimit = 255;

// Where a trusted name (of the tenant, of the principal) comes from.
struct HeaderSource {
  std::string name;  // Lower-case.
  bool operator==(const HeaderSource&) const = default;
};
struct MetadataSource {
  std::string name_space;
  std::string key;
  bool operator==(const MetadataSource&) const = default;
};
struct PeerUriSanSource {
  bool operator==(const PeerUriSanSource&) const = default;
};
struct FixedSource {
  std::string value;
  bool operator==(const FixedSource&) const = default;
};

using NameSource = std::variant<HeaderSource, MetadataSource, PeerUriSanSource, FixedSource>;

}  // namespace idempotency::protocol
