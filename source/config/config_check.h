#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "source/config/field_errors.h"
#include "source/protocol/name_source.h"

namespace google::protobuf {
class Duration;
}

namespace idempotency::v1 {
class Source;
}

namespace idempotency::config {

// Checks that several config fields share. Each adds what is wrong to `errors`; the returned value
// is valid only if it added nothing.

uint64_t checkRange(std::string_view path, uint64_t value, uint64_t min, uint64_t max,
                    FieldErrors& errors);

std::chrono::milliseconds checkDuration(std::string_view path,
                                        const google::protobuf::Duration& value,
                                        std::chrono::milliseconds min,
                                        std::chrono::milliseconds max, FieldErrors& errors);

// Printable ASCII, spaces included, of min … max bytes.
std::string checkText(std::string_view path, const std::string& value, size_t min, size_t max,
                      FieldErrors& errors);

// The same for a name: 1 … NameLimit bytes.
std::string checkName(std::string_view path, const std::string& value, FieldErrors& errors);

// An absolute path. It may reveal where a secret is, so errors do not show it.
std::string checkFile(std::string_view path, const std::string& value, FieldErrors& errors);

// The name of a key in a ring.
void checkKeyId(std::string_view path, const std::string& id, FieldErrors& errors);

// A header name: a token that is not a pseudo-header and that the filter does not use itself.
// Returns it in lower case.
std::string checkHeaderName(std::string_view path, const std::string& value, FieldErrors& errors);

// The same for a list of at most `max` different names. Returns them sorted.
std::vector<std::string> checkHeaderNames(std::string_view path,
                                          const std::vector<std::string>& values, size_t max,
                                          FieldErrors& errors);

// Where the name of a tenant or principal comes from.
protocol::NameSource checkSource(std::string_view path, const v1::Source& message,
                                 FieldErrors& errors);

}  // namespace idempotency::config
