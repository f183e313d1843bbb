#include "source/store/postgres/postgres_store.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/status/status.h"

#include "source/store/postgres/claim_operation.h"
#include "source/store/postgres/extend_operation.h"
#include "source/store/postgres/lookup_operation.h"
#include "source/store/postgres/maintenance_operations.h"
#include "source/store/postgres/write_operation.h"

namespace idempotency {
namespace {

using postgres::QueueBound;
using Ticket = QueueBound::Ticket;
using Use = QueueBound::Use;

constexpr char QueueFull[] = "the queue is full";
// An index row of PostgreSQL holds 2704 bytes.
constexpr size_t LongestIdentity = 2560;
constexpr std::chrono::seconds DefaultConnectTimeout{3};

size_t size(const Identity& identity) {
  return identity.tenant.size() + identity.operation.size() + identity.key.size();
}

// Why a claim can never be stored; null: it can.
const char* refusal(const ClaimRequest& request) {
  if (request.attempt <= 0) {
    return "the attempt is not valid";
  }
  if (size(request.identity) > LongestIdentity) {
    return "tenant, operation and key are too long together";
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PostgresStore>> PostgresStore::create(
    const PostgresStoreOptions& options) {
  auto conninfo = postgres::parseConninfo(options.postgres.conninfo, options.postgres.timeout);
  if (!conninfo.ok()) {
    return conninfo.status();
  }
  postgres::EngineSettings settings;
  settings.connection.connect_timeout = conninfo->connect_timeout.value_or(DefaultConnectTimeout);
  settings.connection.conninfo = *std::move(conninfo);
  settings.connection.session = {options.postgres.timeout,
                                 options.postgres.allow_asynchronous_commit};
  settings.connection.timeout = options.postgres.timeout;
  settings.connections = options.postgres.connections;
  settings.password_file = options.postgres.password_file;
  std::unique_ptr<PostgresStore> store(new PostgresStore(std::move(settings), options));
  if (!store->engine_.ok()) {
    return absl::ResourceExhaustedError("the system gives no more file descriptors");
  }
  try {
    store->thread_ = std::thread([engine = &store->engine_] { engine->run(); });
  } catch (const std::system_error&) {
    return absl::ResourceExhaustedError("the system starts no more threads");
  }
  return store;
}

PostgresStore::PostgresStore(postgres::EngineSettings settings, const PostgresStoreOptions& options)
    : bound_(std::make_shared<QueueBound>(options.queue_operations, options.queue_bytes)),
      inbox_(std::make_shared<postgres::Inbox>()),
      engine_(std::move(settings), inbox_) {}

PostgresStore::~PostgresStore() {
  if (thread_.joinable()) {
    engine_.stop();
    thread_.join();
  }
}

void PostgresStore::submit(postgres::OperationPtr operation) {
  if (inbox_->add(std::move(operation)) && !engine_.sendLone()) {
    inbox_->wake();
  }
}

void PostgresStore::claim(ClaimRequest request, Deadline deadline,
                          std::function<void(ClaimResult)> done) {
  const char* reason = refusal(request);
  Ticket ticket;
  if (reason == nullptr) {
    ticket = bound_->enter(size(request.identity) + request.fingerprint.size(), Use::Begin);
    reason = ticket ? nullptr : QueueFull;
  }
  if (reason != nullptr) {
    answer([reason, done = std::move(done)] { done(Unavailable{reason}); });
    return;
  }
  submit(std::make_unique<postgres::ClaimOperation>(std::move(request), deadline, std::move(ticket),
                                                    duplicates_, std::move(done)));
}

void PostgresStore::abandon(ClaimRef claim) {
  inbox_->push(postgres::Abandon{std::move(claim)});
}

template <typename Request>
void PostgresStore::write(Request request, size_t bytes, Deadline deadline,
                          std::function<void(WriteResult)> done) {
  Ticket ticket = bound_->enter(size(request.claim.identity) + bytes, Use::Follow);
  if (!ticket) {
    answer([done = std::move(done)] { done({WriteOutcome::Unavailable, QueueFull}); });
    return;
  }
  submit(std::make_unique<postgres::WriteOperation>(std::move(request), deadline, std::move(ticket),
                                                    std::move(done)));
}

void PostgresStore::complete(CompleteRequest request, Deadline deadline,
                             std::function<void(WriteResult)> done) {
  const size_t bytes = request.response.size();
  write(std::move(request), bytes, deadline, std::move(done));
}

void PostgresStore::fail(FailRequest request, Deadline deadline,
                         std::function<void(WriteResult)> done) {
  const size_t bytes = request.error.size();
  write(std::move(request), bytes, deadline, std::move(done));
}

void PostgresStore::release(ClaimRef claim, Deadline deadline,
                            std::function<void(WriteResult)> done) {
  write(postgres::WriteOperation::Release{std::move(claim)}, 0, deadline, std::move(done));
}

void PostgresStore::markUnknown(UnknownRequest request, Deadline deadline,
                                std::function<void(WriteResult)> done) {
  const size_t bytes = request.error.size();
  write(std::move(request), bytes, deadline, std::move(done));
}

void PostgresStore::extend(std::vector<ClaimRef> claims, std::chrono::milliseconds lease,
                           Deadline deadline, std::function<void(ExtendResult)> done) {
  if (claims.empty()) {
    answer([done = std::move(done)] { done({}); });
    return;
  }
  size_t bytes = 0;
  for (const ClaimRef& claim : claims) {
    bytes += size(claim.identity) + sizeof(claim);
  }
  Ticket ticket = bound_->enter(bytes, Use::Follow);
  if (!ticket) {
    answer([count = claims.size(), done = std::move(done)] {
      done(ExtendResult(count, WriteResult{WriteOutcome::Unavailable, QueueFull}));
    });
    return;
  }
  inbox_->push(std::make_unique<postgres::ExtendOperation>(std::move(claims), lease, deadline,
                                                           std::move(ticket), std::move(done)));
}

void PostgresStore::lookUp(Identity identity, Deadline deadline,
                           std::function<void(LookUpResult)> done) {
  Ticket ticket = bound_->enter(size(identity), Use::Begin);
  if (!ticket) {
    answer([done = std::move(done)] { done(Unavailable{QueueFull}); });
    return;
  }
  submit(std::make_unique<postgres::LookUpOperation>(std::move(identity), deadline,
                                                     std::move(ticket), std::move(done)));
}

// Background jobs are few: they need no place in the queue.

StoreStatus PostgresStore::status() const {
  const postgres::EngineStats stats = engine_.stats();
  StoreStatus status;
  status.queued = bound_->usedOperations();
  status.queued_bytes = bound_->usedBytes();
  status.refuses = stats.breaker != postgres::Breaker::State::Closed || stats.connections_up == 0;
  status.batches = stats.batches;
  status.operations = stats.operations;
  return status;
}

void PostgresStore::lead(std::string owner, std::chrono::milliseconds lease, Deadline deadline,
                         std::function<void(Leadership)> done) {
  inbox_->push(std::make_unique<postgres::LeadOperation>(std::move(owner), lease, deadline,
                                                         Ticket(), std::move(done)));
}

void PostgresStore::sweep(uint32_t limit, std::optional<std::chrono::milliseconds> reconcile_after,
                          Deadline deadline, std::function<void(MaintenanceResult)> done) {
  inbox_->push(std::make_unique<postgres::SweepOperation>(limit, reconcile_after, deadline,
                                                          Ticket(), std::move(done)));
}

void PostgresStore::reap(uint32_t limit, bool soft, Deadline deadline,
                         std::function<void(MaintenanceResult)> done) {
  inbox_->push(
      std::make_unique<postgres::ReapOperation>(limit, soft, deadline, Ticket(), std::move(done)));
}

}  // namespace idempotency
