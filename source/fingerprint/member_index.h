#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "source/fingerprint/member_order.h"

namespace idempotency::fingerprint {

// The order in which the members of objects are to be written. While a text is read, the members of
// open objects are collected at the front of the given memory. When an object is closed and is not
// sorted, its members are sorted and moved to the back, where they stay:
//
//   | members of open objects ->      <- (object, members...) (object, members...) |
//
// After reading, the front holds the positions of the objects, sorted, to find them by binary
// search.
class MemberIndex {
public:
  // Enough for any JSON text of that size. A member that must be kept has at least the length of
  // `"":1,`, and an object with such members has two of them: see MemberIndexTest for the worst
  // known texts.
  static constexpr size_t wordsFor(size_t text_size) { return text_size / 8 * 3 + 16; }

  MemberIndex(uint32_t* words, size_t count) : words_(words), back_(count), count_(count) {}

  // The number of members of open objects: remember it when an object opens.
  size_t open() const { return front_; }

  // Adds a member to the innermost open object. False if the memory is used up.
  [[nodiscard]] bool add(uint32_t member) {
    if (front_ == back_) {
      return false;
    }
    words_[front_++] = member;
    return true;
  }

  // The innermost object's members, given what open() was when it opened.
  std::span<uint32_t> members(size_t opened) { return {words_ + opened, front_ - opened}; }

  // Ends the innermost object, which keeps the order of the text.
  void close(size_t opened) { front_ = opened; }

  // Ends the innermost object, which starts at that position, and keeps its members in their
  // current order. False if the memory is used up.
  [[nodiscard]] bool closeAndKeep(size_t opened, uint32_t object);

  // Kept objects can be discarded again, the last ones first.
  size_t kept() const { return back_; }
  void forget(size_t kept) { back_ = kept; }
  bool empty() const { return back_ == count_; }

  // Call it once, after reading and before find(). False if the memory is used up.
  [[nodiscard]] bool finish();

  // The members of a kept object; the last one has the flag Member::Last.
  const uint32_t* find(uint32_t object) const;

private:
  uint32_t* words_;
  size_t front_ = 0;
  size_t back_;
  const size_t count_;
};

}  // namespace idempotency::fingerprint
