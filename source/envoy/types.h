#pragma once

#include <cstddef>
#include <string_view>

#include "source/envoy/raw.h"

// The vocabulary that the rest of the binding shares: Envoy's enums in our namespace, and
// conversions of text from and to C.
namespace idempotency::envoy {

using raw::Attribute;
using raw::BodyAction;
using raw::BodyKind;
using raw::CalloutResult;
using raw::CalloutStart;
using raw::HeaderMap;
using raw::HeadersAction;
using raw::LocalReplyAction;
using raw::LogLevel;
using raw::MetadataSource;
using raw::SideStreamReset;
using raw::StreamReset;
using raw::TrailersAction;

inline raw::Bytes toBytes(std::string_view text) {
  return {text.data(), text.size()};
}

inline std::string_view toView(raw::Bytes bytes) {
  return bytes.data == nullptr ? std::string_view() : std::string_view(bytes.data, bytes.size);
}

// A header or trailer. Views of bytes that it does not own: a Field that is passed to Envoy must
// stay valid until the call returns (Envoy copies it); one that comes from Envoy is valid until the
// hook returns or its map is changed.
struct Field : raw::Field {
  Field() = default;
  Field(std::string_view n, std::string_view v)
      : raw::Field{n.data(), n.size(), v.data(), v.size()} {}
  std::string_view nameView() const { return toView({name, name_size}); }
  std::string_view valueView() const { return toView({value, value_size}); }
};
static_assert(sizeof(Field) == sizeof(raw::Field), "arrays of Field are handed to C as they are");

}  // namespace idempotency::envoy
