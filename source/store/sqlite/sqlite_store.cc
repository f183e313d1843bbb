#include "source/store/sqlite/sqlite_store.h"

#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "source/store/sqlite/batch_runner.h"
#include "source/store/sqlite/operation.h"
#include "source/store/sqlite/operation_queue.h"
#include "source/store/sqlite/records.h"

namespace idempotency::sqlite {
namespace {

// What a caller's strings take, besides the operation itself.
size_t bytesOf(const protocol::Identity& identity) {
  return identity.tenant.size() + identity.operation.size() + identity.key.size();
}
size_t bytesOf(const store::ClaimRef& claim) {
  return bytesOf(claim.identity);
}

std::unique_ptr<Operation> lookUpOperation(protocol::Identity identity, store::Deadline deadline,
                                           std::function<void(store::LookUpResult)> done) {
  const size_t bytes = sizeof(LookUpOperation) + bytesOf(identity);
  return std::make_unique<LookUpOperation>(deadline, bytes, std::move(identity), std::move(done));
}

void runIo(OperationQueue& queue, const std::string& path, const Uptime& uptime) {
  BatchRunner runner(
      path, [&queue](store::Deadline until) { return queue.isAwaited(until); }, uptime);
  runner.prepare();
  const BatchRunner::More more = [&queue] { return queue.takeMore(); };
  for (;;) {
    std::vector<Operation*> batch = queue.take();
    if (batch.empty()) {
      return;
    }
    const BatchRunner::Done done = runner.run(std::move(batch), more);
    queue.finish(done.over, done.succeeded);
    runner.tidy();
  }
}

// `bytes`: what `call` holds besides itself.
template <typename Result, typename Call>
void submit(OperationQueue& queue, Operation::Kind kind, size_t bytes, store::Deadline deadline,
            Call call, std::function<void(Result)> done) {
  using Typed = CallOperation<Result, Call>;
  queue.submit(std::make_unique<Typed>(kind, deadline, sizeof(Typed) + bytes, std::move(call),
                                       std::move(done)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::create(
    const protocol::SqliteSettings& settings, const protocol::LimitSettings& limits,
    const Uptime& uptime) {
  if (settings.path.empty() || settings.path.front() != '/') {
    return absl::InvalidArgumentError(
        fmt::format("the path of an SQLite store must be absolute: \"{}\"", settings.path));
  }
  if (settings.path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError("the path of an SQLite store must not contain a NUL");
  }
  auto store = std::unique_ptr<SqliteStore>(new SqliteStore(settings, limits, uptime));
  if (!store->store_thread_.joinable()) {
    return absl::ResourceExhaustedError("cannot start a thread for the SQLite store");
  }
  return store;
}

SqliteStore::SqliteStore(const protocol::SqliteSettings& settings,
                         const protocol::LimitSettings& limits, const Uptime& uptime)
    : queue_(std::make_unique<OperationQueue>(limits)) {
  try {
    io_thread_ = std::thread(
        [queue = queue_.get(), path = settings.path, uptime] { runIo(*queue, path, uptime); });
    store_thread_ = std::thread([queue = queue_.get()] { queue->serve(); });
  } catch (const std::system_error&) {
    // create() looks for it.
  }
}

SqliteStore::~SqliteStore() {
  queue_->stop();
  if (io_thread_.joinable()) {
    io_thread_.join();
  }
  if (store_thread_.joinable()) {
    store_thread_.join();
  }
}

void SqliteStore::claim(store::ClaimRequest request, store::Deadline deadline,
                        std::function<void(store::ClaimResult)> done) {
  const size_t bytes =
      sizeof(ClaimOperation) + bytesOf(request.identity) + request.fingerprint.size();
  queue_->submit(
      std::make_unique<ClaimOperation>(deadline, bytes, std::move(request), std::move(done)));
}

void SqliteStore::abandon(store::ClaimRef claim) {
  queue_->abandon(std::move(claim));
}

void SqliteStore::settle(store::ClaimRef claim, protocol::Ending ending, store::Deadline deadline,
                         std::function<void(store::WriteResult)> done) {
  const size_t bytes = bytesOf(claim) + protocol::bytesOf(ending);
  submit(
      *queue_, Operation::Kind::Write, bytes, deadline,
      [claim = std::move(claim), ending = std::move(ending)](Records& records) {
        return records.settle(claim, ending);
      },
      std::move(done));
}

void SqliteStore::extend(std::vector<store::ClaimRef> claims, std::chrono::milliseconds lease,
                         store::Deadline deadline, std::function<void(store::ExtendResult)> done) {
  size_t bytes = sizeof(ExtendOperation) + claims.size() * sizeof(store::ClaimRef);
  for (const store::ClaimRef& claim : claims) {
    bytes += bytesOf(claim);
  }
  queue_->submit(std::make_unique<ExtendOperation>(deadline, bytes, std::move(claims), lease,
                                                   std::move(done)));
}

void SqliteStore::lookUp(protocol::Identity identity, store::Deadline deadline,
                         std::function<void(store::LookUpResult)> done) {
  queue_->submit(lookUpOperation(std::move(identity), deadline, std::move(done)));
}

void SqliteStore::lookUpMany(std::vector<protocol::Identity> identities, store::Deadline deadline,
                             store::LookUpManyCallback done) {
  const auto each = std::make_shared<const store::LookUpManyCallback>(std::move(done));
  std::vector<std::unique_ptr<Operation>> operations;
  operations.reserve(identities.size());
  for (size_t i = 0; i < identities.size(); ++i) {
    operations.push_back(
        lookUpOperation(std::move(identities[i]), deadline,
                        [each, i](store::LookUpResult result) { (*each)(i, std::move(result)); }));
  }
  queue_->submitAll(std::move(operations));
}

store::StoreStatus SqliteStore::status() const {
  return queue_->status();
}

void SqliteStore::lead(std::string owner, std::chrono::milliseconds lease, store::Deadline deadline,
                       std::function<void(store::Leadership)> done) {
  const size_t bytes = owner.size();
  submit(
      *queue_, Operation::Kind::Maintenance, bytes, deadline,
      [owner = std::move(owner), lease](Records& records) { return records.lead(owner, lease); },
      std::move(done));
}

void SqliteStore::sweep(uint32_t limit, std::optional<std::chrono::milliseconds> reconcile_after,
                        store::Deadline deadline,
                        std::function<void(store::MaintenanceResult)> done) {
  submit(
      *queue_, Operation::Kind::Maintenance, 0, deadline,
      [limit, reconcile_after](Records& records) { return records.sweep(limit, reconcile_after); },
      std::move(done));
}

void SqliteStore::reap(uint32_t limit, bool soft, store::Deadline deadline,
                       std::function<void(store::MaintenanceResult)> done) {
  submit(
      *queue_, Operation::Kind::Maintenance, 0, deadline,
      [limit, soft](Records& records) { return records.reap(limit, soft); }, std::move(done));
}

}  // namespace idempotency::sqlite
