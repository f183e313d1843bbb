// PostgresStore keeps the contract of every store.
#include "test/store/postgres/postgres_rig.h"
#include "test/store/store_contract.h"

namespace idempotency::test {
namespace {

StoreKind postgresKind() {
  return {"Postgres", [] { return std::make_unique<PostgresRig>(); }};
}

INSTANTIATE_TEST_SUITE_P(Postgres, StoreContractTest, ::testing::Values(postgresKind()),
                         storeKindName);
INSTANTIATE_TEST_SUITE_P(Postgres, MaintenanceContractTest, ::testing::Values(postgresKind()),
                         storeKindName);
INSTANTIATE_TEST_SUITE_P(Postgres, OperatorContractTest, ::testing::Values(postgresKind()),
                         storeKindName);

}  // namespace
}  // namespace idempotency::test
