#pragma once

#include <string>
#include <variant>

namespace idempotency {

// Places from which a trusted name (the tenant, the principal) is read.
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

}  // namespace idempotency
