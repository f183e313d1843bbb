#pragma once

#include <string>
#include <string_view>

#include "source/fingerprint/canonical_json.h"

namespace idempotency::fingerprint {

// Keeps all bytes.
class StringSink : public ByteSink {
public:
  void append(std::string_view bytes) override { text_ += bytes; }
  const std::string& text() const { return text_; }

private:
  std::string text_;
};

// A value that was read, in canonical form.
inline std::string written(const CanonicalJson& json, JsonSpan value) {
  StringSink sink;
  json.write(value, sink);
  return sink.text();
}

// A text in canonical form; if it is rejected, "rejected: " and why.
inline std::string canonicalize(std::string_view text, NumberRule rule = NumberRule::Exact) {
  CanonicalJson json(rule);
  const JsonRejection rejection = json.read({&text, 1});
  if (rejection != JsonRejection::None) {
    return "rejected: " + std::string(describe(rejection));
  }
  return written(json, json.whole());
}

}  // namespace idempotency::fingerprint
