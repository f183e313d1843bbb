#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "source/fingerprint/byte_sink.h"
#include "source/fingerprint/json_pointer_set.h"
#include "source/fingerprint/json_reader.h"
#include "source/fingerprint/json_rejection.h"
#include "source/fingerprint/member_index.h"
#include "source/fingerprint/number.h"
#include "source/fingerprint/text_rewriter.h"

namespace idempotency::fingerprint {

// Longer bodies are not read as JSON.
inline constexpr size_t MaxJsonSize = size_t{64} << 20;

// The memory for reading a body of that size: the index, and a copy of the body.
constexpr size_t canonicalJsonWords(size_t size) {
  return MemberIndex::wordsFor(size) +
         (size + TextRewriter::Padding + sizeof(uint32_t) - 1) / sizeof(uint32_t);
}

// A body in canonical JSON (RFC 8785). Needs 2.5 times the size of the body and a little more, in
// one allocation; none for bodies up to InlineSize.
class CanonicalJson {
public:
  static constexpr size_t InlineSize = 4096;

  explicit CanonicalJson(NumberRule rule = NumberRule::Exact) : rule_(rule) {}
  CanonicalJson(const CanonicalJson&) = delete;
  CanonicalJson& operator=(const CanonicalJson&) = delete;

  // Reads a body. Call one of these, once. The other functions may be called only if nothing was
  // rejected.
  [[nodiscard]] JsonRejection read(std::span<const std::string_view> body);
  [[nodiscard]] JsonRejection readExcluding(std::span<const std::string_view> body,
                                            const JsonPointerSet& pointers);
  [[nodiscard]] JsonRejection readSelecting(std::span<const std::string_view> body,
                                            const JsonPointerSet& pointers);

  // The whole document (without what was excluded).
  JsonSpan whole() const { return {0, size_}; }

  // The value that a pointer names, in the order of the set; none if the document has no such
  // value.
  std::optional<JsonSpan> selected(size_t pointer) const;

  // The size of a value in canonical form, and its bytes.
  size_t size(JsonSpan value) const;
  void write(JsonSpan value, ByteSink& sink) const;

private:
  JsonRejection readWith(std::span<const std::string_view> body, const JsonPointerSet* pointers,
                         PointerUse use);
  void prepare(size_t size);
  void copyBody(std::span<const std::string_view> body);

  const NumberRule rule_;
  std::unique_ptr<uint32_t[]> allocated_;
  char* text_ = nullptr;
  std::optional<MemberIndex> index_;
  std::vector<JsonSpan> selected_;
  uint32_t size_ = 0;
  bool marked_ = false;
  bool resized_ = false;
  uint32_t inline_[canonicalJsonWords(InlineSize)];  // Not initialized, because it is large.
};

}  // namespace idempotency::fingerprint
