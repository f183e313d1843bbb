#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "test/support/fake_store.h"
#include "test/support/stepped_store.h"

namespace idempotency::test {

// What the module opens as its store in a program that links this, in place of
// source/store/open/open_store.cc: SteppedStores over the database of the test, whatever its
// settings say. One thread.
class OpenedStores {
public:
  // For the stores that are opened from now on; null: no more. `stepped` runs after each step that
  // a store takes by itself; may be empty.
  static void use(std::shared_ptr<FakeDatabase> database, std::function<void()> stepped = {});
  // What the stores do from now on that go while something waits: carry it out, as the real ones
  // do where they can, or refuse it. At first they carry it out.
  enum class LastWords : uint8_t { CarriedOut, Refused };
  static void atTheirEnd(LastWords what);

  // Those that live, the oldest first.
  static const std::vector<SteppedStore*>& all();
  // How many went without having done all that they had been asked for, since use().
  static uint64_t cutShort();
};

}  // namespace idempotency::test
