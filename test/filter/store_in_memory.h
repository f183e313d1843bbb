#pragma once

#include <memory>

#include "test/support/fake_store.h"

namespace idempotency::test {

// What openStore() of a test binary gives out: stores in memory, on one database that outlives
// them.

// Forgets everything. At the start of a test, when no store is open.
void resetStores();
std::shared_ptr<FakeDatabase> storeDatabase();
// The store that was opened last; fails the test if it is gone.
FakeStore& openedStore();
// How many were opened since the reset.
int storesOpened();

}  // namespace idempotency::test
