#include "source/store/open/open_store.h"

#include <utility>

#include "source/protocol/overloaded.h"
#include "source/store/postgres/postgres_store.h"
#include "source/store/postgres/wire/conninfo.h"
#include "source/store/sqlite/sqlite_store.h"

namespace idempotency::store {
namespace {

constexpr char ClearTextWarning[] =
    "store.postgres.conninfo connects to another host without requiring TLS: keys and responses "
    "may be sent in plain text. Set sslmode=verify-full and sslrootcert";

template <class Opened>
absl::StatusOr<OpenedStore> bothFaces(absl::StatusOr<std::unique_ptr<Opened>> opened) {
  if (!opened.ok()) {
    return opened.status();
  }
  MaintenanceStore* const maintenance = opened->get();
  return OpenedStore{.store = *std::move(opened), .maintenance = maintenance, .warning = {}};
}

}  // namespace

absl::StatusOr<OpenedStore> openStore(const protocol::StoreSettings& settings,
                                      const protocol::LimitSettings& limits) {
  return std::visit(protocol::Overloaded{
                        [&](const protocol::PostgresSettings& postgres) {
                          postgres::PostgresStoreOptions options;
                          options.postgres = postgres;
                          options.queue_bytes = limits.queue_bytes;
                          auto opened = bothFaces(postgres::PostgresStore::create(options));
                          if (opened.ok() && postgres::mayTravelInClear(postgres.conninfo)) {
                            opened->warning = ClearTextWarning;
                          }
                          return opened;
                        },
                        [&](const protocol::SqliteSettings& sqlite) {
                          return bothFaces(sqlite::SqliteStore::create(sqlite, limits));
                        },
                    },
                    settings);
}

}  // namespace idempotency::store
