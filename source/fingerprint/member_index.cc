#include "source/fingerprint/member_index.h"

#include <algorithm>

namespace idempotency::fingerprint {

bool MemberIndex::closeAndKeep(size_t opened, uint32_t object) {
  const std::span<uint32_t> kept = members(opened);
  if (back_ - front_ < kept.size() + 1) {
    return false;
  }
  back_ -= kept.size() + 1;
  words_[back_] = object;
  std::copy(kept.begin(), kept.end(), words_ + back_ + 1);
  words_[back_ + kept.size()] |= Member::Last;
  close(opened);
  return true;
}

bool MemberIndex::finish() {
  front_ = 0;
  for (size_t object = back_; object != count_;) {
    if (!add(static_cast<uint32_t>(object))) {
      return false;
    }
    do {
      ++object;
    } while ((words_[object] & Member::Last) == 0);
    ++object;
  }
  // Objects are kept when they end, the last one in front: without nesting this is the reverse
  // order.
  std::reverse(words_, words_ + front_);
  const auto before = [this](uint32_t a, uint32_t b) { return words_[a] < words_[b]; };
  if (!std::is_sorted(words_, words_ + front_, before)) {
    std::sort(words_, words_ + front_, before);
  }
  return true;
}

const uint32_t* MemberIndex::find(uint32_t object) const {
  const uint32_t* const found =
      std::lower_bound(words_, words_ + front_, object,
                       [this](uint32_t place, uint32_t wanted) { return words_[place] < wanted; });
  return words_ + *found + 1;
}

}  // namespace idempotency::fingerprint
