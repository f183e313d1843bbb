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

namespace idempotency {

// Where a value stands in a text.
struct JsonSpan {
  uint32_t begin = 0;
  uint32_t end = 0;  // Zero: there is no such value.
};

// What the pointers that a reader gets are for.
enum class PointerUse : uint8_t {
  Select,   // Tell where the values are.
  Exclude,  // Leave the values out, members with their names, elements as if they were not there.
};

// Reads a JSON text (RFC 8259) in one pass and makes it canonical (RFC 8785) in place on the way,
// but for what needs more room or another order than the text: that is left to the writer, by
// JsonMarks and the MemberIndex. Time is linear in the text but for the sorting of members (n log
// n). Recursion is bounded by MaxJsonDepth.
class JsonReader {
public:
  // Behind the text there must be TextRewriter::Padding.
  JsonReader(char* text, size_t size, MemberIndex& index, NumberRule rule)
      : text_(text), end_(text + size), index_(index), rule_(rule) {}

  // `found` gets one span per pointer in the set's order (Select only).
  void usePointers(const JsonPointerSet& pointers, PointerUse use, std::span<JsonSpan> found);

  // To be called once. If the text is rejected, nothing of it is of use.
  [[nodiscard]] JsonRejection read();

  // The text's size now.
  uint32_t size() const { return size_; }

  // Whether the text has marks and cannot be taken as it is.
  bool marked() const { return resized_ || !index_.empty(); }

  // Whether writing the text gives another number of bytes than it has.
  bool resized() const { return resized_; }

private:
  using Node = JsonPointerSet::Node;
  struct OpenObject;

  // These read something that starts at `p` and return where it ends, or null if it is rejected.
  // `node` is where the pointers are by now; null if there are none.
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
  bool plain_ = true;  // The last string has neither escapes nor bytes from 0x80.
  bool resized_ = false;
  uint32_t size_ = 0;
  JsonRejection rejection_ = JsonRejection::None;
};

}  // namespace idempotency
