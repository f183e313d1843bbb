// The embedded store keeps the contract.
#include "source/store/sqlite/sqlite_store.h"

#include "gtest/gtest.h"

#include "test/store/sqlite/sqlite_rig.h"
#include "test/store/store_contract.h"

namespace idempotency::test {
namespace {

StoreKind sqliteKind() {
  return {"Sqlite", [] { return std::make_unique<SqliteRig>(); }};
}

INSTANTIATE_TEST_SUITE_P(Sqlite, StoreContractTest, ::testing::Values(sqliteKind()), storeKindName);
INSTANTIATE_TEST_SUITE_P(Sqlite, MaintenanceContractTest, ::testing::Values(sqliteKind()),
                         storeKindName);

}  // namespace
}  // namespace idempotency::test
