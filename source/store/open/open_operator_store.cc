#include "source/store/open/open_operator_store.h"

#include "source/protocol/overloaded.h"
#include "source/store/postgres/postgres_operator_store.h"
#include "source/store/sqlite/sqlite_operator_store.h"

namespace idempotency::store {

absl::StatusOr<std::unique_ptr<OperatorStore>> openOperatorStore(const OperatorAccess& access) {
  using Opened = absl::StatusOr<std::unique_ptr<OperatorStore>>;
  return std::visit(
      protocol::Overloaded{
          [](const PostgresAccess& postgres) -> Opened {
            return postgres::PostgresOperatorStore::open({.conninfo = postgres.conninfo,
                                                          .password = postgres.password,
                                                          .timeout = postgres.timeout});
          },
          [](const SqliteAccess& sqlite) -> Opened {
            return sqlite::openOperatorStore(sqlite.path, sqlite.timeout);
          },
      },
      access);
}

}  // namespace idempotency::store
