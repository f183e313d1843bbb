#include "test/support/opened_stores.h"

#include <utility>

#include "source/store/open/open_store.h"

namespace idempotency::test {
namespace {

using LastWords = OpenedStores::LastWords;

std::shared_ptr<FakeDatabase> current_database;
LastWords last_words = LastWords::CarriedOut;
uint64_t cut_short = 0;

std::vector<SteppedStore*>& stores() {
  static std::vector<SteppedStore*> instance;
  return instance;
}

std::function<void()>& afterStep() {
  static std::function<void()> instance;
  return instance;
}

class OpenedSteppedStore : public SteppedStore {
public:
  OpenedSteppedStore() : SteppedStore(current_database) { stores().push_back(this); }
  ~OpenedSteppedStore() override {
    while (last_words == LastWords::CarriedOut && waiting() > 0) {
      step(StepFate::CarriedOut);
      if (afterStep()) {
        afterStep()();
      }
    }
    cut_short += waiting() + held() > 0 ? 1 : 0;
    std::erase(stores(), this);
  }
};

}  // namespace

void OpenedStores::use(std::shared_ptr<FakeDatabase> database, std::function<void()> stepped) {
  current_database = std::move(database);
  afterStep() = std::move(stepped);
  last_words = LastWords::CarriedOut;
  cut_short = 0;
}

void OpenedStores::atTheirEnd(LastWords what) {
  last_words = what;
}

const std::vector<SteppedStore*>& OpenedStores::all() {
  return stores();
}

uint64_t OpenedStores::cutShort() {
  return cut_short;
}

}  // namespace idempotency::test

namespace idempotency::store {

absl::StatusOr<OpenedStore> openStore(const protocol::StoreSettings& /*settings*/,
                                      const protocol::LimitSettings& /*limits*/) {
  if (test::current_database == nullptr) {
    return absl::FailedPreconditionError("the test has no database");
  }
  auto store = std::make_unique<test::OpenedSteppedStore>();
  MaintenanceStore* const maintenance = store.get();
  return OpenedStore{std::move(store), maintenance};
}

}  // namespace idempotency::store
