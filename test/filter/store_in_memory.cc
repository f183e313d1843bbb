#include "test/filter/store_in_memory.h"

#include <stdexcept>

#include "source/store/open/open_store.h"

namespace idempotency::test {
namespace {

struct Stores {
  std::shared_ptr<FakeDatabase> database = std::make_shared<FakeDatabase>();
  FakeStore* last = nullptr;
  int opened = 0;
};

Stores& stores() {
  static Stores instance;
  return instance;
}

class TrackedStore : public FakeStore {
public:
  TrackedStore() : FakeStore(stores().database) {
    stores().last = this;
    ++stores().opened;
  }
  ~TrackedStore() override {
    if (stores().last == this) {
      stores().last = nullptr;
    }
  }
};

}  // namespace

void resetStores() {
  stores() = Stores();
}

std::shared_ptr<FakeDatabase> storeDatabase() {
  return stores().database;
}

FakeStore& openedStore() {
  if (stores().last == nullptr) {
    throw std::logic_error("no store is open");
  }
  return *stores().last;
}

int storesOpened() {
  return stores().opened;
}

}  // namespace idempotency::test

namespace idempotency::store {

absl::StatusOr<OpenedStore> openStore(const protocol::StoreSettings& /*settings*/,
                                      const protocol::LimitSettings& /*limits*/) {
  auto store = std::make_unique<test::TrackedStore>();
  MaintenanceStore* const maintenance = store.get();
  return OpenedStore{std::move(store), maintenance};
}

}  // namespace idempotency::store
