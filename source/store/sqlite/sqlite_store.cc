#include "source/store/sqlite/sqlite_store.h"

#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "source/store/sqlite/batch_runner.h"
#include "source/store/sqlite/operation.h"
#include "source/store/sqlite/operation_queue.h"

namespace idempotency {
namespace {

using sqlite::BatchRunner;
using sqlite::ClaimOperation;
using sqlite::LookUpOperation;
using sqlite::Operation;
using sqlite::OperationQueue;
using sqlite::TypedOperation;

// What a caller's strings take, besides the operation itself.
size_t bytesOf(const Identity& identity) {
  return identity.tenant.size() + identity.operation.size() + identity.key.size();
}
size_t bytesOf(const ClaimRef& claim) {
  return bytesOf(claim.identity);
}

void runIo(OperationQueue& queue, const std::string& path) {
  BatchRunner runner(path, [&queue](Deadline until) { return queue.isAwaited(until); });
  runner.prepare();
  const BatchRunner::More more = [&queue] { return queue.takeMore(); };
  for (;;) {
    std::vector<Operation*> batch = queue.take();
    if (batch.empty()) {
      return;
    }
    queue.finish(runner.run(std::move(batch), more));
    runner.tidy();
  }
}

template <typename Result, typename Request>
void submit(OperationQueue& queue, Operation::Kind kind, Request request, size_t bytes,
            Deadline deadline, std::function<void(Result)> done) {
  using Typed = TypedOperation<Request, Result>;
  queue.submit(std::make_unique<Typed>(kind, deadline, sizeof(Typed) + bytes, std::move(request),
                                       std::move(done)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::create(const SqliteSettings& settings,
                                                                 const LimitSettings& limits) {
  if (settings.path.empty() || settings.path.front() != '/') {
    return absl::InvalidArgumentError(
        fmt::format("the path of an SQLite store must be absolute: \"{}\"", settings.path));
  }
  if (settings.path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError("the path of an SQLite store must not hold a NUL");
  }
  auto store = std::unique_ptr<SqliteStore>(new SqliteStore(settings, limits));
  if (!store->store_thread_.joinable()) {
    return absl::ResourceExhaustedError("no thread can be started for the SQLite store");
  }
  return store;
}

SqliteStore::SqliteStore(const SqliteSettings& settings, const LimitSettings& limits)
    : queue_(std::make_unique<OperationQueue>(limits)) {
  try {
    io_thread_ = std::thread([queue = queue_.get(), path = settings.path] { runIo(*queue, path); });
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

void SqliteStore::claim(ClaimRequest request, Deadline deadline,
                        std::function<void(ClaimResult)> done) {
  const size_t bytes =
      sizeof(ClaimOperation) + bytesOf(request.identity) + request.fingerprint.size();
  queue_->submit(std::make_unique<ClaimOperation>(Operation::Kind::Claim, deadline, bytes,
                                                  std::move(request), std::move(done)));
}

void SqliteStore::abandon(ClaimRef claim) {
  queue_->abandon(std::move(claim));
}

void SqliteStore::complete(CompleteRequest request, Deadline deadline,
                           std::function<void(WriteResult)> done) {
  const size_t bytes = bytesOf(request.claim) + request.response.size();
  submit(*queue_, Operation::Kind::Write, std::move(request), bytes, deadline, std::move(done));
}

void SqliteStore::fail(FailRequest request, Deadline deadline,
                       std::function<void(WriteResult)> done) {
  const size_t bytes = bytesOf(request.claim) + request.error.size();
  submit(*queue_, Operation::Kind::Write, std::move(request), bytes, deadline, std::move(done));
}

void SqliteStore::release(ClaimRef claim, Deadline deadline,
                          std::function<void(WriteResult)> done) {
  const size_t bytes = bytesOf(claim);
  submit(*queue_, Operation::Kind::Write, sqlite::ReleaseRequest{std::move(claim)}, bytes, deadline,
         std::move(done));
}

void SqliteStore::markUnknown(UnknownRequest request, Deadline deadline,
                              std::function<void(WriteResult)> done) {
  const size_t bytes = bytesOf(request.claim) + request.error.size();
  submit(*queue_, Operation::Kind::Write, std::move(request), bytes, deadline, std::move(done));
}

void SqliteStore::extend(std::vector<ClaimRef> claims, std::chrono::milliseconds lease,
                         Deadline deadline, std::function<void(ExtendResult)> done) {
  size_t bytes = claims.size() * sizeof(ClaimRef);
  for (const ClaimRef& claim : claims) {
    bytes += bytesOf(claim);
  }
  submit(*queue_, Operation::Kind::Write, sqlite::ExtendRequest{std::move(claims), lease}, bytes,
         deadline, std::move(done));
}

void SqliteStore::lookUp(Identity identity, Deadline deadline,
                         std::function<void(LookUpResult)> done) {
  const size_t bytes = sizeof(LookUpOperation) + bytesOf(identity);
  queue_->submit(std::make_unique<LookUpOperation>(Operation::Kind::LookUp, deadline, bytes,
                                                   sqlite::LookUpRequest{std::move(identity)},
                                                   std::move(done)));
}

StoreStatus SqliteStore::status() const {
  return queue_->status();
}

void SqliteStore::lead(std::string owner, std::chrono::milliseconds lease, Deadline deadline,
                       std::function<void(Leadership)> done) {
  const size_t bytes = owner.size();
  submit(*queue_, Operation::Kind::Maintenance, sqlite::LeadRequest{std::move(owner), lease}, bytes,
         deadline, std::move(done));
}

void SqliteStore::sweep(uint32_t limit, std::optional<std::chrono::milliseconds> reconcile_after,
                        Deadline deadline, std::function<void(MaintenanceResult)> done) {
  submit(*queue_, Operation::Kind::Maintenance, sqlite::SweepRequest{limit, reconcile_after}, 0,
         deadline, std::move(done));
}

void SqliteStore::reap(uint32_t limit, bool soft, Deadline deadline,
                       std::function<void(MaintenanceResult)> done) {
  submit(*queue_, Operation::Kind::Maintenance, sqlite::ReapRequest{limit, soft}, 0, deadline,
         std::move(done));
}

}  // namespace idempotency
