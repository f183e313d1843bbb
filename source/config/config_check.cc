#include "source/config/config_check.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include <google/protobuf/duration.pb.h>

#include "api/idempotency/v1/idempotency.pb.h"
#include "source/config/duration_text.h"
#include "source/http/header_names.h"
#include "source/key/structured_field.h"

namespace idempotency::config {
namespace {

constexpr size_t MaxFileBytes = 4096;
constexpr size_t MaxKeyIdBytes = 32;
constexpr int32_t NanosPerMilli = 1'000'000;

bool isPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), key::isPrintableAscii);
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
    errors.add(path, fmt::format("must not be empty; expected {} to {} bytes of printable ASCII",
                                 min, max));
  } else if (value.size() < min || value.size() > max || !isPrintable(value)) {
    errors.add(path, quoteForError(value),
               fmt::format("{} to {} bytes of printable ASCII", min, max));
  }
  return value;
}

std::string checkName(std::string_view path, const std::string& value, FieldErrors& errors) {
  return checkText(path, value, 1, protocol::NameLimit, errors);
}

std::string checkFile(std::string_view path, const std::string& value, FieldErrors& errors) {
  const std::string expected = fmt::format("an absolute path of at most {} bytes", MaxFileBytes);
  if (value.empty()) {
    errors.add(path, fmt::format("must not be empty; expected {}", expected));
  } else if (!value.starts_with('/') || value.size() > MaxFileBytes ||
             value.find('\0') != std::string::npos) {
    errors.add(path, "another value (not shown)", expected);
  }
  return value;
}

void checkKeyId(std::string_view path, const std::string& id, FieldErrors& errors) {
  const bool plain =
      id.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
      std::string::npos;
  constexpr std::string_view Expected = "1 to 32 characters from A-Z a-z 0-9 . _ -";
  if (id.empty()) {
    errors.add(path, fmt::format("must not be empty; expected {}", Expected));
  } else if (id.size() > MaxKeyIdBytes || !plain) {
    errors.add(path, quoteForError(id), Expected);
  }
}

std::string checkHeaderName(std::string_view path, const std::string& value, FieldErrors& errors) {
  std::string lower = http::toLower(value);
  if (value.empty()) {
    errors.add(path, "must not be empty; expected a header name");
  } else if (value.starts_with(':')) {
    errors.add(path,
               fmt::format("{} is a pseudo-header, which is not allowed", quoteForError(value)));
  } else if (!http::isToken(value) || value.size() > protocol::NameLimit) {
    errors.add(path, quoteForError(value),
               "a header name (letters, digits and characters such as - _ .)");
  } else if (http::isOwnHeader(lower)) {
    errors.add(path, fmt::format("{} is used by the filter itself; use another header",
                                 quoteForError(value)));
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
      errors.add(entry_path, fmt::format("duplicate name {}", quoteForError(values[i])));
    }
  }
  return {names.begin(), names.end()};
}

namespace {

protocol::HeaderSource checkHeaderSource(std::string_view path, const std::string& value,
                                         FieldErrors& errors) {
  if (http::isHostHeader(http::toLower(value))) {
    errors.add(path,
               fmt::format("{} is chosen by the client; use a header that a trusted filter sets",
                           quoteForError(value)));
    return {};
  }
  return protocol::HeaderSource{checkHeaderName(path, value, errors)};
}

}  // namespace

protocol::NameSource checkSource(std::string_view path, const v1::Source& message,
                                 FieldErrors& errors) {
  switch (message.kind_case()) {
    case v1::Source::kHeader:
      return checkHeaderSource(joinPath(path, "header"), message.header(), errors);
    case v1::Source::kMetadata: {
      const std::string parent = joinPath(path, "metadata");
      const auto& metadata = message.metadata();
      return protocol::MetadataSource{
          checkName(joinPath(parent, "namespace"), metadata.namespace_(), errors),
          checkName(joinPath(parent, "key"), metadata.key(), errors)};
    }
    case v1::Source::kPeerUriSan:
      return protocol::PeerUriSanSource{};
    case v1::Source::kFixed:
      return protocol::FixedSource{
          checkText(joinPath(path, "fixed"), message.fixed(), 0, protocol::NameLimit, errors)};
    case v1::Source::KIND_NOT_SET:
      break;
  }
  errors.add(path, "required; set one of header, metadata, peer_uri_san, fixed");
  return protocol::FixedSource{};
}

}  // namespace idempotency::config
