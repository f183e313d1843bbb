#include "source/fingerprint/request_parts.h"

#include <algorithm>
#include <functional>
#include <string>

#include "source/fingerprint/authority.h"
#include "source/fingerprint/canonical_json.h"
#include "source/fingerprint/media_type.h"
#include "source/fingerprint/query.h"

namespace idempotency::fingerprint {
namespace {

// Method, path, query and media type by version 1. An empty Content-Type is none here.
void writeTarget1(const RequestParts& parts, PartSink& sink) {
  sink.add(PartKind::Method, parts.method);
  const SplitPath split = splitPath(parts.path);
  sink.add(PartKind::Path, split.path);
  std::string scratch;
  if (split.query.has_value()) {
    sink.add(PartKind::Query, sortedQuery(*split.query, scratch));
  }
  if (!parts.content_type.value_or("").empty()) {
    sink.add(PartKind::MediaType, normalMediaType(*parts.content_type, scratch));
  }
}

// The same by version 2, with the authority.
void writeTarget2(const RequestParts& parts, const FingerprintRules& rules, PartSink& sink) {
  std::string scratch;
  sink.add(PartKind::Method, parts.method);
  if (rules.authority && parts.authority.has_value()) {
    sink.add(PartKind::Authority, normalAuthority(*parts.authority, parts.scheme, scratch));
  }
  const SplitPath split = splitPath(parts.path);
  sink.add(PartKind::Path, split.path);
  if (split.query.has_value()) {
    const NormalQuery query = normalQuery(*split.query, rules.query, scratch);
    sink.add(query.as_sent ? PartKind::QueryAsSent : PartKind::Query, query.text);
  }
  if (parts.content_type.has_value()) {
    sink.add(PartKind::MediaType, normalMediaType(*parts.content_type, scratch));
  }
}

void writeHeader(std::string_view name, const RequestParts& parts, PartSink& sink) {
  sink.add(PartKind::HeaderName, name);
  for (const RequestHeader& header : parts.headers) {
    if (header.name == name) {
      sink.add(PartKind::HeaderValue, header.value);
    }
  }
}

template <class Name>
void writeHeaders(const std::vector<Name>& names, const RequestParts& parts, PartSink& sink) {
  for (const std::string_view name : names) {
    writeHeader(name, parts, sink);
  }
}

// In an order of their own, each name once.
void writeHeadersSorted(const std::vector<std::string>& names, const RequestParts& parts,
                        PartSink& sink) {
  if (std::adjacent_find(names.begin(), names.end(), std::greater_equal<>()) == names.end()) {
    writeHeaders(names, parts, sink);
    return;
  }
  std::vector<std::string_view> sorted(names.begin(), names.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  writeHeaders(sorted, parts, sink);
}

// Those that are there and that writeHeadersSorted() will not write.
void writeAlwaysCounted(const FingerprintRules& rules, const RequestParts& parts, PartSink& sink) {
  if (parts.headers.empty()) {
    return;
  }
  for (const std::string_view name : AlwaysCountedHeaders) {
    const bool is_there = std::any_of(parts.headers.begin(), parts.headers.end(),
                                      [name](const RequestHeader& h) { return h.name == name; });
    if (is_there &&
        std::find(rules.headers.begin(), rules.headers.end(), name) == rules.headers.end()) {
      writeHeader(name, parts, sink);
    }
  }
}

uint64_t sizeOf(std::span<const std::string_view> body) {
  uint64_t size = 0;
  for (const std::string_view slice : body) {
    size += slice.size();
  }
  return size;
}

void writeBytes(PartKind kind, std::span<const std::string_view> body, PartSink& sink) {
  sink.begin(kind, sizeOf(body));
  for (const std::string_view slice : body) {
    sink.append(slice);
  }
}

BodyOutcome writeRejected(JsonRejection why, std::span<const std::string_view> body,
                          PartSink& sink) {
  writeBytes(PartKind::BodyRejectedJson, body, sink);
  return {BodyForm::RejectedJson, why};
}

void writeValue(PartKind kind, const CanonicalJson& json, JsonSpan value, PartSink& sink) {
  sink.begin(kind, json.size(value));
  json.write(value, sink);
}

BodyOutcome writeCanonical(std::span<const std::string_view> body, const JsonPointerSet& excluded,
                           PartSink& sink) {
  CanonicalJson json;
  const JsonRejection why = excluded.empty() ? json.read(body) : json.readExcluding(body, excluded);
  if (why != JsonRejection::None) {
    return writeRejected(why, body, sink);
  }
  writeValue(PartKind::BodyCanonicalJson, json, json.whole(), sink);
  return {BodyForm::CanonicalJson};
}

BodyOutcome writeSelected(std::span<const std::string_view> body, const JsonPointerSet& pointers,
                          PartSink& sink) {
  CanonicalJson json;
  const JsonRejection why = json.readSelecting(body, pointers);
  if (why != JsonRejection::None) {
    return writeRejected(why, body, sink);
  }
  size_t place = 0;
  for (const JsonPointer& pointer : pointers) {
    sink.add(PartKind::BodySelected, pointer.text());
    const std::optional<JsonSpan> value = json.selected(place++);
    if (value.has_value()) {
      writeValue(PartKind::SelectedValue, json, *value, sink);
    } else {
      sink.add(PartKind::SelectedAbsent, {});
    }
  }
  return {BodyForm::SelectedJson};
}

BodyOutcome writeBody(const RequestParts& parts, const FingerprintRules& rules, PartSink& sink) {
  if (sizeOf(parts.body) == 0) {
    sink.add(PartKind::BodyEmpty, {});
    return {BodyForm::Empty};
  }
  if (rules.mode == FingerprintMode::Raw || !isJsonMediaType(parts.content_type.value_or(""))) {
    writeBytes(PartKind::BodyBytes, parts.body, sink);
    return {BodyForm::Bytes};
  }
  if (rules.mode == FingerprintMode::Selected) {
    return writeSelected(parts.body, rules.pointers, sink);
  }
  return writeCanonical(parts.body, rules.exclude_pointers, sink);
}

}  // namespace

BodyOutcome writeRequestParts(const RequestParts& parts, const FingerprintRules& rules,
                              uint8_t version, PartSink& sink) {
  const char version_byte = static_cast<char>(version);
  sink.add(PartKind::Version, {&version_byte, 1});
  if (rules.mode == FingerprintMode::None) {
    sink.add(PartKind::BodyIgnored, {});
    return {BodyForm::Ignored};
  }
  if (version == 1) {
    writeTarget1(parts, sink);
  } else {
    writeTarget2(parts, rules, sink);
    writeAlwaysCounted(rules, parts, sink);
  }
  writeHeadersSorted(rules.headers, parts, sink);
  if (rules.principal) {
    sink.add(PartKind::Principal, parts.principal);
  }
  return writeBody(parts, rules, sink);
}

}  // namespace idempotency::fingerprint
