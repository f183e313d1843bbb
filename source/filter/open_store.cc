#include "source/filter/open_store.h"

#include <utility>

#include "source/protocol/overloaded.h"
#include "source/store/postgres/postgres_store.h"
#include "source/store/sqlite/sqlite_store.h"

namespace idempotency {
namespace {

template <class Opened>
absl::StatusOr<OpenedStore> bothFaces(absl::StatusOr<std::unique_ptr<Opened>> opened) {
  if (!opened.ok()) {
    return opened.status();
  }
  MaintenanceStore* const maintenance = opened->get();
  return OpenedStore{*std::move(opened), maintenance};
}

}  // namespace

absl::StatusOr<OpenedStore> openStore(const StoreSettings& settings, const LimitSettings& limits) {
  return std::visit(Overloaded{
                        [&](const PostgresSettings& postgres) {
                          PostgresStoreOptions options;
                          options.postgres = postgres;
                          options.queue_bytes = limits.queue_bytes;
                          return bothFaces(PostgresStore::create(options));
                        },
                        [&](const SqliteSettings& sqlite) {
                          return bothFaces(SqliteStore::create(sqlite, limits));
                        },
                    },
                    settings);
}

}  // namespace idempotency
