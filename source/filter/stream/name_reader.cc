#include "source/filter/stream/name_reader.h"

#include <cmath>
#include <fmt/format.h>
#include <string_view>
#include <utility>
#include <variant>

namespace idempotency::filter {
namespace {

// The result of one source.
struct Reading {
  std::optional<std::string> name;  // None: ask the next source.
  bool unusable = false;            // Do not use any other source.
};

// Metadata holds numbers as doubles. From here on two integers may have become one.
constexpr double FirstInexactInteger = 9007199254740992.0;  // 2^53.

Reading orNext(std::optional<std::string_view> name) {
  if (!name.has_value() || name->empty()) {
    return {};
  }
  return {std::string(*name), false};
}

// Equal names for equal numbers only.
Reading fromNumber(double number) {
  if (!std::isfinite(number) || std::abs(number) >= FirstInexactInteger) {
    return {std::nullopt, true};
  }
  if (number == std::trunc(number)) {
    return {fmt::format("{}", static_cast<int64_t>(number)), false};
  }
  return {fmt::format("{}", number), false};  // As many digits as tell it apart.
}

struct Reader {
  envoy::Stream stream;
  const envoy::HeaderLines& headers;

  Reading operator()(const protocol::HeaderSource& source) const {
    const std::optional<std::string_view> value = headers.get(source.name);
    const bool is_list = value.value_or("").find(',') != std::string_view::npos;
    if (is_list || headers.count(source.name) > 1) {
      return {std::nullopt, true};
    }
    return orNext(value);
  }
  Reading operator()(const protocol::MetadataSource& source) const {
    constexpr auto Dynamic = envoy::MetadataSource::Dynamic;
    if (const auto text = stream.metadata(Dynamic, source.name_space, source.key)) {
      return orNext(text);
    }
    if (const auto number = stream.metadataNumber(Dynamic, source.name_space, source.key)) {
      return fromNumber(*number);
    }
    if (const auto flag = stream.metadataFlag(Dynamic, source.name_space, source.key)) {
      return {*flag ? "true" : "false", false};
    }
    return {};
  }
  // Envoy shows the name of a certificate that it has verified; without mTLS there is none.
  Reading operator()(const protocol::PeerUriSanSource&) const {
    if (!stream.flag(envoy::Attribute::ConnectionMtls).value_or(false)) {
      return {};
    }
    return orNext(stream.text(envoy::Attribute::PeerUriSan));
  }
  Reading operator()(const protocol::FixedSource& source) const { return {source.value, false}; }
};

}  // namespace

std::optional<std::string> readName(envoy::Stream stream, const envoy::HeaderLines& headers,
                                    std::span<const protocol::NameSource> sources) {
  for (const protocol::NameSource& source : sources) {
    Reading reading = std::visit(Reader{stream, headers}, source);
    if (reading.unusable) {
      return std::nullopt;
    }
    if (reading.name.has_value()) {
      return std::move(reading.name);
    }
  }
  return std::nullopt;
}

}  // namespace idempotency::filter
