#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "source/protocol/field_errors.h"
#include "source/protocol/name_source.h"

namespace google::protobuf {
class Duration;
}

namespace idempotency {

namespace v1 {
class Source;
}

// The rules that several config fields share. Each check adds to `errors` what is wrong; the value
// that it returns counts only if nothing was.

uint64_t checkRange(std::string_view path, uint64_t value, uint64_t min, uint64_t max,
                    FieldErrors& errors);

std::chrono::milliseconds checkDuration(std::string_view path,
                                        const google::protobuf::Duration& value,
                                        std::chrono::milliseconds min,
                                        std::chrono::milliseconds max, FieldErrors& errors);

// Printable ASCII, spaces included, of min … max bytes.
std::string checkText(std::string_view path, const std::string& value, size_t min, size_t max,
                      FieldErrors& errors);

// An absolute path. It may say where a secret is, so errors do not show it.
std::string checkFile(std::string_view path, const std::string& value, FieldErrors& errors);

// A header name: a token, no pseudo header, none that the filter itself reads or writes. Gives it
// in lower case.
std::string checkHeaderName(std::string_view path, const std::string& value, FieldErrors& errors);

// The same for a list of at most `max` names, none of them twice. Gives them sorted.
std::vector<std::string> checkHeaderNames(std::string_view path,
                                          const std::vector<std::string>& values, size_t max,
                                          FieldErrors& errors);

// The place of a tenant's or principal's name.
NameSource checkSource(std::string_view path, const v1::Source& message, FieldErrors& errors);

}  // namespace idempotency
