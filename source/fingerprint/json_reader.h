#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "source/fingerprint/json_pointer_set.h"
#include "source/fingerprint/json_rejection.h"
#include "source/fingerprint/member_index.h"
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
  Exclude,  // Leave the values out: members with their names, array elements as if they were not
            // there.
};

// Reads a JSON text (RFC 8259) in one pass and makes it canonical (RFC 8785) on the way, but for
// what needs more room or another order than the text: that is left to the writer, by JsonMarks and
// the MemberIndex. Time is linear in the text but for the sorting of members (n log n). Recursion
// is bounded by MaxJsonDepth.
class JsonReader {
public:
  JsonReader(TextRewriter& text, MemberIndex& index, NumberRule rule)
      : text_(text), index_(index), rule_(rule) {}

  // `found` gets one span per pointer in the set's order (Select only).
  void usePointers(const JsonPointerSet& pointers, PointerUse use, std::span<JsonSpan> found);

  // To be called once. If the text is rejected, nothing of it is of use.
  [[nodiscard]] JsonRejection read();

  // Whether the text has marks and cannot be taken as it is.
  bool marked() const { return resized_ || !index_.empty(); }

  // Whether writing the text gives another number of bytes than it has.
  bool resized() const { return resized_; }

private:
  using Node = JsonPointerSet::Node;
  struct OpenObject;

  bool fail(JsonRejection rejection);
  bool value(const Node* node);
  bool pointedValue(const Node* node);
  bool object(const Node* node);
  bool addMember(OpenObject& object, const Node* node);
  bool memberName(OpenObject& object);
  bool memberValue(const Node* node);
  bool closeObject(const OpenObject& object);
  bool array(const Node* node);
  bool elements();
  bool pointedElements(const Node& node);
  bool string();
  char* multibyte(char* p);
  char* escape(char* p);
  char* unicodeEscape(char* p);
  char* replaceEscape(char* p, char* to, uint32_t code_point);
  bool number();
  bool literal(std::string_view word);
  bool isExcluded(const Node* node) const;

  TextRewriter& text_;
  MemberIndex& index_;
  const NumberRule rule_;
  const JsonPointerSet* pointers_ = nullptr;
  PointerUse use_ = PointerUse::Select;
  std::span<JsonSpan> found_;
  size_t depth_ = 0;
  bool escaped_ = false;  // The last string has an escape in its canonical form.
  bool resized_ = false;
  JsonRejection rejection_ = JsonRejection::None;
};

}  // namespace idempotency
