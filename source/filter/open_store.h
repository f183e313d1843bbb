#pragma once

#include <memory>

#include <absl/status/statusor.h>

#include "source/protocol/settings.h"
#include "source/store/maintenance_store.h"
#include "source/store/store.h"

namespace idempotency {

// Both faces of one store.
struct OpenedStore {
  std::unique_ptr<Store> store;
  MaintenanceStore* maintenance = nullptr;  // The same object.
};

// Makes the store that the settings name. Does not wait for a database. An error if the settings
// can never work. Chosen at link time: unit tests have a store in memory.
[[nodiscard]] absl::StatusOr<OpenedStore> openStore(const StoreSettings& settings,
                                                    const LimitSettings& limits);

}  // namespace idempotency
