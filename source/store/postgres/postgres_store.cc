#include "source/store/postgres/postgres_store.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/status/status.h"

#include "source/store/postgres/operations/claim_operation.h"
#include "source/store/postgres/operations/extend_operation.h"
#include "source/store/postgres/operations/lookup_operation.h"
#include "source/store/postgres/operations/maintenance_operations.h"
#include "source/store/postgres/operations/write_operation.h"

namespace idempotency::postgres {
namespace {

using Ticket = QueueBound::Ticket;
using Use = QueueBound::Use;

constexpr char QueueFull[] = "the queue is full";
// An index row of PostgreSQL holds 2704 bytes.
constexpr size_t LongestIdentity = 2560;
constexpr std::chrono::seconds DefaultConnectTimeout{3};

size_t size(const protocol::Identity& identity) {
  return identity.tenant.size() + identity.operation.size() + identity.key.size();
}

// Why a claim can never be stored; null if it can.
const char* refusal(const store::ClaimRequest& request) {
  if (request.attempt <= 0) {
    return "the attempt is not valid";
  }
  if (size(request.identity) > LongestIdentity) {
    return "tenant, operation and key are too long in total";
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PostgresStore>> PostgresStore::create(
    const PostgresStoreOptions& options) {
  auto conninfo = parseConninfo(options.postgres.conninfo, options.postgres.timeout);
  if (!conninfo.ok()) {
    return conninfo.status();
  }
  EngineSettings settings;
  settings.connection.connect_timeout = conninfo->connect_timeout.value_or(DefaultConnectTimeout);
  settings.connection.conninfo = *std::move(conninfo);
  settings.connection.session = {options.postgres.timeout,
                                 options.postgres.allow_asynchronous_commit};
  settings.connection.timeout = options.postgres.timeout;
  settings.connections = options.postgres.connections;
  settings.password_file = options.postgres.password_file;
  std::unique_ptr<PostgresStore> store(new PostgresStore(std::move(settings), options));
  if (!store->engine_.ok()) {
    return absl::ResourceExhaustedError("no file descriptors left");
  }
  try {
    store->thread_ = std::thread([engine = &store->engine_] { engine->run(); });
  } catch (const std::system_error&) {
    return absl::ResourceExhaustedError("cannot start a thread");
  }
  return store;
}

PostgresStore::PostgresStore(EngineSettings settings, const PostgresStoreOptions& options)
    : bound_(std::make_shared<QueueBound>(options.queue_operations, options.queue_bytes)),
      inbox_(std::make_shared<Inbox>()),
      engine_(std::move(settings), inbox_, use_) {}

PostgresStore::~PostgresStore() {
  if (thread_.joinable()) {
    engine_.stop();
    thread_.join();
  }
}

void PostgresStore::submit(OperationPtr operation) {
  if (inbox_->add(std::move(operation)) && !engine_.sendLone()) {
    inbox_->wake();
  }
}

void PostgresStore::claim(store::ClaimRequest request, store::Deadline deadline,
                          std::function<void(store::ClaimResult)> done) {
  if (const char* const reason = refusal(request)) {
    answer([reason, done = std::move(done)] { done(store::Unavailable{reason}); });
    return;
  }
  Ticket ticket = bound_->enter(size(request.identity) + request.fingerprint.size(), Use::Begin);
  if (!ticket) {
    answer([done = std::move(done)] { done(store::Unavailable{QueueFull, true}); });
    return;
  }
  submit(std::make_unique<ClaimOperation>(std::move(request), deadline, std::move(ticket),
                                          duplicates_, use_, std::move(done)));
}

void PostgresStore::abandon(store::ClaimRef claim) {
  inbox_->push(Abandon{std::move(claim)});
}

void PostgresStore::settle(store::ClaimRef claim, protocol::Ending ending, store::Deadline deadline,
                           std::function<void(store::WriteResult)> done) {
  Ticket ticket = bound_->enter(size(claim.identity) + protocol::bytesOf(ending), Use::Follow);
  if (!ticket) {
    answer([done = std::move(done)] { done({store::WriteOutcome::Unavailable, QueueFull}); });
    return;
  }
  submit(std::make_unique<WriteOperation>(std::move(claim), std::move(ending), deadline,
                                          std::move(ticket), use_, std::move(done)));
}

void PostgresStore::extend(std::vector<store::ClaimRef> claims, std::chrono::milliseconds lease,
                           store::Deadline deadline,
                           std::function<void(store::ExtendResult)> done) {
  if (claims.empty()) {
    answer([done = std::move(done)] { done({}); });
    return;
  }
  size_t bytes = 0;
  for (const store::ClaimRef& claim : claims) {
    bytes += size(claim.identity) + sizeof(claim);
  }
  Ticket ticket = bound_->enter(bytes, Use::Follow);
  if (!ticket) {
    answer([count = claims.size(), done = std::move(done)] {
      done(store::ExtendResult(count,
                               store::WriteResult{store::WriteOutcome::Unavailable, QueueFull}));
    });
    return;
  }
  inbox_->push(std::make_unique<ExtendOperation>(std::move(claims), lease, deadline,
                                                 std::move(ticket), std::move(done)));
}

void PostgresStore::lookUp(protocol::Identity identity, store::Deadline deadline,
                           std::function<void(store::LookUpResult)> done) {
  Ticket ticket = bound_->enter(size(identity), Use::Begin);
  if (!ticket) {
    answer([done = std::move(done)] { done(store::Unavailable{QueueFull, true}); });
    return;
  }
  submit(std::make_unique<LookUpOperation>(std::move(identity), deadline, std::move(ticket),
                                           std::move(done)));
}

// As one message, so that the store's thread sees all of them at once: it then asks for many rows
// with each statement.
void PostgresStore::lookUpMany(std::vector<protocol::Identity> identities, store::Deadline deadline,
                               store::LookUpManyCallback done) {
  const auto each = std::make_shared<const store::LookUpManyCallback>(std::move(done));
  std::vector<Message> messages;
  messages.reserve(identities.size());
  for (size_t i = 0; i < identities.size(); ++i) {
    auto finish = [each, i](store::LookUpResult result) { (*each)(i, std::move(result)); };
    if (Ticket ticket = bound_->enter(size(identities[i]), Use::Begin)) {
      messages.emplace_back(std::make_unique<LookUpOperation>(
          std::move(identities[i]), deadline, std::move(ticket), std::move(finish)));
    } else {
      messages.emplace_back([finish] { finish(store::Unavailable{QueueFull, true}); });
    }
  }
  inbox_->pushAll(std::move(messages));
}

// Background jobs are few: they need no place in the queue.

store::StoreStatus PostgresStore::status() const {
  const EngineStats stats = engine_.stats();
  store::StoreStatus status;
  status.queued = bound_->usedOperations();
  status.queued_bytes = bound_->usedBytes();
  status.refuses = stats.breaker != Breaker::State::Closed || stats.connections_up == 0;
  status.batches = stats.batches_committed + stats.batches_failed;
  status.operations = stats.operations;
  status.batches_failed = stats.batches_failed;
  status.connects = stats.connects;
  status.connections_lost = stats.connections_lost;
  status.orphans = stats.orphans;
  status.last_error = stats.last_error;
  return status;
}

void PostgresStore::lead(std::string owner, std::chrono::milliseconds lease,
                         store::Deadline deadline, std::function<void(store::Leadership)> done) {
  inbox_->push(std::make_unique<LeadOperation>(std::move(owner), lease, deadline, Ticket(),
                                               std::move(done)));
}

void PostgresStore::sweep(uint32_t limit, std::optional<std::chrono::milliseconds> reconcile_after,
                          store::Deadline deadline,
                          std::function<void(store::MaintenanceResult)> done) {
  inbox_->push(std::make_unique<SweepOperation>(limit, reconcile_after, deadline, Ticket(),
                                                std::move(done)));
}

void PostgresStore::reap(uint32_t limit, bool soft, store::Deadline deadline,
                         std::function<void(store::MaintenanceResult)> done) {
  inbox_->push(std::make_unique<ReapOperation>(limit, soft, deadline, Ticket(), std::move(done)));
}

}  // namespace idempotency::postgres
