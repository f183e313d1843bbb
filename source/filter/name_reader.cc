#include "source/filter/name_reader.h"

#include <string_view>
#include <variant>

namespace idempotency {
namespace {

// What one source says.
struct Reading {
  std::optional<std::string_view> name;  // None: ask the next source.
  bool forged = false;                   // Ask nobody else.
};

Reading orNext(std::optional<std::string_view> name) {
  if (!name.has_value() || name->empty()) {
    return {};
  }
  return {name, false};
}

struct Reader {
  envoy::Stream stream;

  Reading operator()(const HeaderSource& source) const {
    const envoy::Headers headers = stream.requestHeaders();
    if (headers.count(source.name) > 1) {
      return {std::nullopt, true};
    }
    return orNext(headers.get(source.name));
  }
  Reading operator()(const MetadataSource& source) const {
    return orNext(stream.metadata(envoy::MetadataSource::Dynamic, source.name_space, source.key));
  }
  // Envoy shows the name of a certificate that it has verified; without mTLS there is none.
  Reading operator()(const PeerUriSanSource&) const {
    if (!stream.flag(envoy::Attribute::ConnectionMtls).value_or(false)) {
      return {};
    }
    return orNext(stream.text(envoy::Attribute::PeerUriSan));
  }
  Reading operator()(const FixedSource& source) const { return {source.value, false}; }
};

}  // namespace

std::optional<std::string> readName(envoy::Stream stream, std::span<const NameSource> sources) {
  for (const NameSource& source : sources) {
    const Reading reading = std::visit(Reader{stream}, source);
    if (reading.forged) {
      return std::nullopt;
    }
    if (reading.name.has_value()) {
      return std::string(*reading.name);
    }
  }
  return std::nullopt;
}

}  // namespace idempotency
