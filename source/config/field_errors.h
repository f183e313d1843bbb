#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <absl/status/status.h>

namespace idempotency::config {

// The errors of a config, collected so that an operator sees all of them at once.
class FieldErrors {
public:
  // Adds "path: got GIVEN; expected EXPECTED". `path` is as the user would write it, `given` in
  // words or quoted (see quoteForError), `expected` in words.
  void add(std::string_view path, std::string_view given, std::string_view expected);
  // Adds "path: text".
  void add(std::string_view path, std::string_view text);
  // Adds all errors of `others`.
  void append(const FieldErrors& others);
  bool empty() const { return messages_.empty(); }
  // OK if nothing was added; else InvalidArgument with up to ten errors, joined by " | ".
  absl::Status status() const;

private:
  std::vector<std::string> messages_;
};

// A value from the config in quotes, safe for a log line: control and non-ASCII bytes are escaped,
// and it is cut after 64 bytes. Not for values that may be secret.
std::string quoteForError(std::string_view text);

// "policy" and "ttl" make "policy.ttl".
std::string joinPath(std::string_view parent, std::string_view name);
// "tenant.sources" and 1 make "tenant.sources[1]".
std::string indexPath(std::string_view parent, size_t index);

}  // namespace idempotency::config
