#include "source/store/postgres/write_operation.h"

#include <utility>

namespace idempotency::postgres {
namespace {

constexpr int64_t NoTtl = -1;

void bindClaim(const ClaimRef& claim, Parameters& parameters) {
  parameters.bytes(claim.identity.tenant);
  parameters.bytes(claim.identity.operation);
  parameters.bytes(claim.identity.key);
  parameters.int64(claim.attempt);
}

std::optional<int64_t> count(const std::optional<std::chrono::milliseconds>& time) {
  return time.has_value() ? std::optional<int64_t>(time->count()) : std::nullopt;
}

StatementId bindRequest(const CompleteRequest& request, Parameters& parameters) {
  bindClaim(request.claim, parameters);
  parameters.int16(static_cast<int16_t>(request.status));
  parameters.int16(request.response_schema);
  parameters.int64(count(request.ttl));
  if (request.tombstone != Tombstone::None) {
    parameters.int16(static_cast<int16_t>(request.tombstone));
    return StatementId::CompleteBare;
  }
  parameters.bytes(request.response);
  return StatementId::Complete;
}

StatementId bindRequest(const FailRequest& request, Parameters& parameters) {
  bindClaim(request.claim, parameters);
  parameters.bytes(request.error);
  return StatementId::Fail;
}

StatementId bindRequest(const WriteOperation::Release& request, Parameters& parameters) {
  bindClaim(request.claim, parameters);
  return StatementId::Release;
}

StatementId bindRequest(const UnknownRequest& request, Parameters& parameters) {
  bindClaim(request.claim, parameters);
  parameters.bytes(request.error);
  parameters.int64(count(request.reconcile_after));
  return StatementId::MarkUnknown;
}

// The state that a write leads to. A release leads to none, mostly.
std::optional<RecordState> target(const CompleteRequest&) {
  return RecordState::Completed;
}
std::optional<RecordState> target(const FailRequest&) {
  return RecordState::FailedRetryable;
}
std::optional<RecordState> target(const WriteOperation::Release&) {
  return std::nullopt;
}
std::optional<RecordState> target(const UnknownRequest&) {
  return RecordState::Unknown;
}

}  // namespace

WriteOperation::WriteOperation(Request request, Deadline deadline, QueueBound::Ticket ticket,
                               std::function<void(WriteResult)> done)
    : Operation(deadline, std::move(ticket)),
      request_(std::move(request)),
      done_(std::move(done)) {}

const ClaimRef& WriteOperation::claim() const {
  return std::visit([](const auto& request) -> const ClaimRef& { return request.claim; }, request_);
}

size_t WriteOperation::bytes() const {
  const Identity& id = claim().identity;
  const auto* const complete = std::get_if<CompleteRequest>(&request_);
  return id.tenant.size() + id.operation.size() + id.key.size() +
         (complete != nullptr && !checking_ ? complete->response.size() : 0);
}

StatementId WriteOperation::bind(size_t, Parameters& parameters) const {
  if (checking_) {
    parameters.bytes(claim().identity.tenant);
    parameters.bytes(claim().identity.operation);
    parameters.bytes(claim().identity.key);
    return StatementId::ReadKey;
  }
  return std::visit([&](const auto& request) { return bindRequest(request, parameters); },
                    request_);
}

Group WriteOperation::group() const {
  if (checking_) {
    return Group::Keys;
  }
  const auto* const complete = std::get_if<CompleteRequest>(&request_);
  return complete != nullptr && complete->tombstone == Tombstone::None ? Group::Completes
                                                                       : Group::None;
}

void WriteOperation::bindMember(Arrays& arrays) const {
  arrays.bytes(0, claim().identity.tenant);
  arrays.bytes(1, claim().identity.operation);
  arrays.bytes(2, claim().identity.key);
  if (checking_) {
    return;
  }
  const auto& complete = std::get<CompleteRequest>(request_);
  arrays.int64(3, complete.claim.attempt);
  arrays.int16(4, static_cast<int16_t>(complete.status));
  arrays.int16(5, complete.response_schema);
  arrays.int64(6, complete.ttl.has_value() ? complete.ttl->count() : NoTtl);
  arrays.bytes(7, complete.response);
}

Operation::Next WriteOperation::onResults(std::span<const Rows> results) {
  const Rows& rows = results.front();
  if (checking_) {
    finish(judge(rows), {});
    return Next::Finished;
  }
  if (rows.changed()) {
    finish(WriteOutcome::Done, {});
    return Next::Finished;
  }
  checking_ = true;
  return finished() ? Next::Finished : Next::SendAgain;
}

WriteOutcome WriteOperation::judge(const Rows& rows) const {
  const bool release = std::holds_alternative<Release>(request_);
  if (rows.empty()) {
    return release ? WriteOutcome::Done : WriteOutcome::Fenced;
  }
  const auto wanted = std::visit([](const auto& request) { return target(request); }, request_);
  const Record found = readRecord(rows, 0);
  return found.attempt == claim().attempt && wanted.has_value() &&
                 isReached(*wanted, found.state, found.tombstone)
             ? WriteOutcome::Done
             : WriteOutcome::Fenced;
}

Operation::Next WriteOperation::onLost(const std::string& reason) {
  if (!checking_) {
    finish(WriteOutcome::InDoubt, reason);
  }
  return finished() ? Next::Finished : Next::SendAgain;
}

void WriteOperation::onRefused(const std::string& reason) {
  finish(checking_ ? WriteOutcome::InDoubt : WriteOutcome::Unavailable, reason);
}

void WriteOperation::onDeadline(bool sent) {
  finish(sent || checking_ ? WriteOutcome::InDoubt : WriteOutcome::Unavailable, DeadlineReason);
}

void WriteOperation::finish(WriteOutcome outcome, std::string reason) {
  callBack(done_, WriteResult{outcome, std::move(reason)});
}

}  // namespace idempotency::postgres
