#pragma once

#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "source/protocol/settings.h"
#include "source/store/maintenance_store.h"
#include "source/store/store.h"

namespace idempotency::store {

// Both interfaces of one store.
struct OpenedStore {
  std::unique_ptr<Store> store;
  MaintenanceStore* maintenance = nullptr;  // The same object.
  std::string warning{};  // A warning for the operator about valid settings; may be empty.
};

// Opens the store of the settings, without waiting for a database. An error if the settings can
// never work. Chosen at link time: unit tests have a store in memory.
[[nodiscard]] absl::StatusOr<OpenedStore> openStore(const protocol::StoreSettings& settings,
                                                    const protocol::LimitSettings& limits);

}  // namespace idempotency::store
