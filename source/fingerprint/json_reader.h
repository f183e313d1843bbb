#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "source/fingerprint/json_pointer_set.h"
#include "source/fingerprint/json_rejection.h"
#include "source/fingerprint/member_index.h"
#include "source/fingerprint/member_order.h"
#include "source/fingerprint/number.h"
#include "source/fingerprint/text_rewriter.h"

namespace idempotency::fingerprint {

// The position of a value in a text.
struct JsonSpan {
  uint32_t begin = 0;
  uint32_t end = 0;  // Zero: there is no such value.
};

// What the pointers of a reader are for.
enum class PointerUse : uint8_t {
  Select,   // Report where the values are.
  Exclude,  // Omit the values: members with their names, elements as if they were absent.
};

// Reads a JSON text (RFC 8259) in one pass and makes it canonical (RFC 8785) in place. What needs
// more space, or another order than the text, is left to the writer, by JsonMarks and the
// MemberIndex. Time is linear in the text, except for the sorting of members (n log n). Recursion
// is bounded by MaxJsonDepth.
class JsonReader {
public:
  // TextRewriter::Padding must follow the text.
  JsonReader(char* text, size_t size, MemberIndex& index, NumberRule rule)
      : text_(text), end_(text + size), index_(index), rule_(rule) {}

  // `found` gets one span per pointer, in the order of the set (Select only).
  void usePointers(const JsonPointerSet& pointers, PointerUse use, std::span<JsonSpan> found);

  // Call it once. If the text is rejected, its contents are unusable.
  [[nodiscard]] JsonRejection read();

  // The current size of the text.
  uint32_t size() const { return size_; }

  // Whether the text contains marks and cannot be used as it is.
  bool marked() const { return resized_ || !index_.empty(); }

  // Whether the written text has a different size.
  bool resized() const { return resized_; }

private:
  using Node = JsonPointerSet::Node;
  struct OpenObject;

  // These read something that starts at `p`, and return its end, or null if it is rejected. `node`
  // is the position of the pointers; null if there are none.
  char* value(char* p, const Node* node);
  char* pointedValue(char* p, const Node* node);
  char* object(char* p, const Node* node);
  char* member(char* p, OpenObject& object, const Node* node);
  char* memberName(char* p, OpenObject& object);
  char* memberValue(char* p, const Node* node);
  char* array(char* p, const Node* node);
  char* elements(char* p);
  char* pointedElements(char* p, const Node& node);
  char* string(char* p);
  char* stringFrom(char* p);
  char* multibyte(char* p);
  char* escape(char* p);
  char* unicodeEscape(char* p);
  char* replaceEscape(char* p, char* to, uint32_t code_point);
  char* number(char* p);
  char* otherNumber(char* p, const char* end);
  char* literal(char* p, std::string_view word);

  char* fail(JsonRejection rejection);
  void compareWithLast(char* p, uint32_t name, OpenObject& object);
  const Node* pointedMember(char* p, uint32_t start, const Node& node);
  bool closeObject(char* p, const OpenObject& object);
  bool sortInPlace(char* p, const OpenObject& object);
  bool sortByIndex(char* p, const OpenObject& object);
  bool isExcluded(const Node* node) const;

  TextRewriter text_;
  char* const end_;
  MemberIndex& index_;
  const NumberRule rule_;
  const JsonPointerSet* pointers_ = nullptr;
  PointerUse use_ = PointerUse::Select;
  std::span<JsonSpan> found_;
  SmallOrder small_order_;
  size_t depth_ = 0;
  bool plain_ = true;  // The last string has neither escapes nor bytes of 0x80 or more.
  bool resized_ = false;
  uint32_t size_ = 0;
  JsonRejection rejection_ = JsonRejection::None;
};

}  // namespace idempotency::fingerprint
