#include "source/protocol/config_check.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include <google/protobuf/duration.pb.h>

#include "api/idempotency/v1/idempotency.pb.h"
#include "source/protocol/duration_text.h"
#include "source/protocol/header_names.h"

namespace idempotency {
namespace {

constexpr size_t MaxNameBytes = 255;
constexpr size_t MaxFileBytes = 4096;
constexpr int32_t NanosPerMilli = 1'000'000;

bool isPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

}  // namespace

uint64_t checkRange(std::string_view path, uint64_t value, uint64_t min, uint64_t max,
                    FieldErrors& errors) {
  if (value < min || value > max) {
    errors.add(path, fmt::format("{}", value), fmt::format("{} to {}", min, max));
  }
  return value;
}

std::chrono::milliseconds checkDuration(std::string_view path,
                                        const google::protobuf::Duration& value,
                                        std::chrono::milliseconds min,
                                        std::chrono::milliseconds max, FieldErrors& errors) {
  const std::chrono::milliseconds duration(value.seconds() * 1000 + value.nanos() / NanosPerMilli);
  if (value.nanos() % NanosPerMilli != 0) {
    errors.add(path, "a fraction of a millisecond", "whole milliseconds");
  } else if (duration < min || duration > max) {
    errors.add(path, formatDuration(duration),
               fmt::format("{} to {}", formatDuration(min), formatDuration(max)));
  }
  return duration;
}

std::string checkText(std::string_view path, const std::string& value, size_t min, size_t max,
                      FieldErrors& errors) {
  if (value.empty() && min > 0) {
    errors.add(path, "empty", fmt::format("{} to {} bytes of printable ASCII", min, max));
  } else if (value.size() < min || value.size() > max || !isPrintable(value)) {
    errors.add(path, quoteForError(value),
               fmt::format("{} to {} bytes of printable ASCII", min, max));
  }
  return value;
}

std::string checkFile(std::string_view path, const std::string& value, FieldErrors& errors) {
  if (!value.starts_with('/') || value.size() > MaxFileBytes ||
      value.find('\0') != std::string::npos) {
    errors.add(path, value.empty() ? "empty" : "something else (not shown)",
               "an absolute path, starting with a slash");
  }
  return value;
}

std::string checkHeaderName(std::string_view path, const std::string& value, FieldErrors& errors) {
  std::string lower = toLower(value);
  if (value.empty()) {
    errors.add(path, "empty", "a header name");
  } else if (value.starts_with(':')) {
    errors.add(path, quoteForError(value), "a header name that is no pseudo header");
  } else if (!isToken(value) || value.size() > MaxNameBytes) {
    errors.add(path, quoteForError(value), "a header name: letters, digits and - _ . alike");
  } else if (isOwnHeader(lower)) {
    errors.add(path, quoteForError(value), "a header that the filter does not use itself");
  }
  return lower;
}

std::vector<std::string> checkHeaderNames(std::string_view path,
                                          const std::vector<std::string>& values, size_t max,
                                          FieldErrors& errors) {
  checkRange(fmt::format("{} (entries)", path), values.size(), 0, max, errors);
  std::set<std::string> names;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string entry_path = indexPath(path, i);
    if (!names.insert(checkHeaderName(entry_path, values[i], errors)).second) {
      errors.add(entry_path, quoteForError(values[i]), "each name once");
    }
  }
  return {names.begin(), names.end()};
}

NameSource checkSource(std::string_view path, const v1::Source& message, FieldErrors& errors) {
  switch (message.kind_case()) {
    case v1::Source::kHeader:
      return HeaderSource{checkHeaderName(joinPath(path, "header"), message.header(), errors)};
    case v1::Source::kMetadata: {
      const std::string parent = joinPath(path, "metadata");
      const auto& metadata = message.metadata();
      return MetadataSource{
          checkText(joinPath(parent, "namespace"), metadata.namespace_(), 1, MaxNameBytes, errors),
          checkText(joinPath(parent, "key"), metadata.key(), 1, MaxNameBytes, errors)};
    }
    case v1::Source::kPeerUriSan:
      return PeerUriSanSource{};
    case v1::Source::kFixed:
      return FixedSource{
          checkText(joinPath(path, "fixed"), message.fixed(), 0, MaxNameBytes, errors)};
    case v1::Source::KIND_NOT_SET:
      break;
  }
  errors.add(path, "empty", "one of header, metadata, peer_uri_san, fixed");
  return FixedSource{};
}

}  // namespace idempotency
