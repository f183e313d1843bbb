#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "source/fingerprint/member_order.h"

namespace idempotency {

// In which order the members of objects are to be written. Objects that are open while a text is
// read pile up their members from the front of the given memory. An object that is closed and turns
// out not to be sorted hands its members, now sorted, over to the back, where they stay:
//
//   | members of open objects ->      <- (object, members...) (object, members...) |
//
// After reading, the front holds the objects' places, sorted, to find them by binary search.
class MemberIndex {
public:
  // Enough for any JSON text of that size. A member that has to be kept is at least `"":1,` long
  // and an object with such members has two of them: see MemberIndexTest for the worst texts known.
  static constexpr size_t wordsFor(size_t text_size) { return text_size / 8 * 3 + 16; }

  MemberIndex(uint32_t* words, size_t count) : words_(words), back_(count), count_(count) {}

  // How many members of open objects there are: remember it when an object opens.
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

  // Ends the innermost object. It needs no other order than that of the text.
  void close(size_t opened) { front_ = opened; }

  // Ends the innermost object, which starts at that position, and keeps its members in their
  // present order. False if the memory is used up.
  [[nodiscard]] bool closeAndKeep(size_t opened, uint32_t object);

  // Kept objects can be forgotten again, last ones first.
  size_t kept() const { return back_; }
  void forget(size_t kept) { back_ = kept; }
  bool empty() const { return back_ == count_; }

  // To be called once, after reading, before find(). False if the memory is used up.
  [[nodiscard]] bool finish();

  // The members of a kept object; the last one has the flag Member::Last.
  const uint32_t* find(uint32_t object) const;

private:
  uint32_t* words_;
  size_t front_ = 0;
  size_t back_;
  const size_t count_;
};

}  // namespace idempotency
