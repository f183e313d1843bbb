#include "source/fingerprint/canonical_json.h"

#include <algorithm>
#include <cstring>

#include "source/fingerprint/json_writer.h"

namespace idempotency::fingerprint {
namespace {

class CountingSink : public ByteSink {
public:
  void append(std::string_view bytes) override { size_ += bytes.size(); }
  size_t size() const { return size_; }

private:
  size_t size_ = 0;
};

// None if the sum is more than is read as JSON.
std::optional<size_t> sizeOf(std::span<const std::string_view> body) {
  size_t size = 0;
  for (const std::string_view slice : body) {
    if (slice.size() > MaxJsonSize - size) {
      return std::nullopt;
    }
    size += slice.size();
  }
  return size;
}

}  // namespace

static_assert(MaxJsonSize <= Member::Position);

JsonRejection CanonicalJson::read(std::span<const std::string_view> body) {
  return readWith(body, nullptr, PointerUse::Select);
}

JsonRejection CanonicalJson::readExcluding(std::span<const std::string_view> body,
                                           const JsonPointerSet& pointers) {
  return readWith(body, &pointers, PointerUse::Exclude);
}

JsonRejection CanonicalJson::readSelecting(std::span<const std::string_view> body,
                                           const JsonPointerSet& pointers) {
  selected_.resize(pointers.size());
  return readWith(body, &pointers, PointerUse::Select);
}

JsonRejection CanonicalJson::readWith(std::span<const std::string_view> body,
                                      const JsonPointerSet* pointers, PointerUse use) {
  const std::optional<size_t> size = sizeOf(body);
  if (!size.has_value()) {
    return JsonRejection::TooLarge;
  }
  prepare(*size);
  copyBody(body);
  JsonReader reader(text_, *size, *index_, rule_);
  if (pointers != nullptr) {
    reader.usePointers(*pointers, use, selected_);
  }
  const JsonRejection rejection = reader.read();
  size_ = reader.size();
  marked_ = reader.marked();
  resized_ = reader.resized();
  return rejection;
}

// The index comes first, since it must be aligned.
void CanonicalJson::prepare(size_t size) {
  uint32_t* words = inline_;
  if (size > InlineSize) {
    allocated_ = std::make_unique_for_overwrite<uint32_t[]>(canonicalJsonWords(size));
    words = allocated_.get();
  }
  const size_t index_words = MemberIndex::wordsFor(size);
  index_.emplace(words, index_words);
  text_ = reinterpret_cast<char*>(words + index_words);
}

void CanonicalJson::copyBody(std::span<const std::string_view> body) {
  char* end = text_;
  for (const std::string_view slice : body) {
    end = std::copy(slice.begin(), slice.end(), end);
  }
  std::memset(end, 0, TextRewriter::Padding);
}

std::optional<JsonSpan> CanonicalJson::selected(size_t pointer) const {
  if (selected_[pointer].end == 0) {
    return std::nullopt;
  }
  return selected_[pointer];
}

size_t CanonicalJson::size(JsonSpan value) const {
  if (!resized_) {
    return value.end - value.begin;
  }
  CountingSink count;
  write(value, count);
  return count.size();
}

void CanonicalJson::write(JsonSpan value, ByteSink& sink) const {
  if (!marked_) {
    sink.append({text_ + value.begin, value.end - value.begin});
    return;
  }
  JsonWriter(text_, *index_, sink).write(value);
}

}  // namespace idempotency::fingerprint
