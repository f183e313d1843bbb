#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "source/protocol/ending.h"
#include "source/store/maintenance_store.h"
#include "source/store/sqlite/records.h"
#include "source/store/store.h"

namespace idempotency::sqlite {

// Why an operation has no result.
enum class Fate : uint8_t {
  NotDone,    // Certainly.
  QueueFull,  // Certainly not done, because the queue is full.
  InDoubt,
};

// One operation, from its call until its callback has run. The queue owns it. The I/O thread
// carries it out, the store's thread runs the callback, and a thread with the queue's lock may
// cancel it; each uses only its own part.
class Operation {
public:
  enum class Kind : uint8_t {
    Claim,
    LookUp,
    Write,  // By an attempt that holds its claim. Served before others when space is short.
    Maintenance,
    Own,  // The store's own release of a claim that no request uses.
  };

  Operation(Kind kind, store::Deadline deadline, size_t bytes)
      : kind_(kind), deadline_(deadline), bytes_(bytes) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  Kind kind() const { return kind_; }
  store::Deadline deadline() const { return deadline_; }
  // What it holds in memory.
  size_t bytes() const { return bytes_; }
  // Claims only; 0 for others.
  virtual protocol::Attempt attempt() const { return 0; }
  // Claims and the store's own.
  virtual store::ClaimRef claim() const { return {}; }

  // Only the first call succeeds: by the thread that carries it out, or by the one that cancels it.
  bool start() { return take(Phase::Started); }
  bool cancel() { return take(Phase::Cancelled); }
  bool isCancelled() const { return phase_.load() == Phase::Cancelled; }

  // --- I/O thread
  virtual void carryOut(Records& records) = 0;
  virtual void fail(Fate fate, const std::string& reason) = 0;
  // How much memory the result takes, roughly.
  virtual size_t resultBytes() const { return 0; }

  // --- Store's thread
  // Runs the callback with the result, unless it has run already.
  virtual void answer() = 0;
  // Runs the callback without a result, for a caller that cannot wait for it.
  virtual std::function<void()> answerWithout(Fate fate, const std::string& reason) = 0;
  // Whether the callback has run, or there is none.
  virtual bool isAnswered() const = 0;
  // After it is over: whether it leaves an orphan, a claim that is or may be stored and that the
  // caller does not know to be its own.
  virtual bool leavesOrphan() const { return false; }
  // Own: whether it must be tried again.
  virtual bool mustRepeat() const { return false; }

  // Claims only, under the queue's lock: the caller will not use it.
  bool abandoned = false;

private:
  enum class Phase : uint8_t { Waiting, Started, Cancelled };
  bool take(Phase phase) {
    Phase expected = Phase::Waiting;
    return phase_.compare_exchange_strong(expected, phase);
  }

  const Kind kind_;
  const store::Deadline deadline_;
  const size_t bytes_;
  std::atomic<Phase> phase_{Phase::Waiting};
};

// How each kind of result expresses that there is none.
template <typename Result>
Result noResult(Fate fate, const std::string& reason);
template <>
inline store::ClaimResult noResult(Fate fate, const std::string& reason) {
  if (fate == Fate::InDoubt) {
    return store::InDoubt{reason};
  }
  return store::Unavailable{reason, fate == Fate::QueueFull};
}
template <>
inline store::LookUpResult noResult(Fate fate, const std::string& reason) {
  return store::Unavailable{reason, fate == Fate::QueueFull};
}
template <>
inline store::WriteResult noResult(Fate fate, const std::string& reason) {
  return {.outcome = fate == Fate::InDoubt ? store::WriteOutcome::InDoubt
                                           : store::WriteOutcome::Unavailable,
          .reason = reason};
}
// Only the operation knows for how many claims: it overrides without().
template <>
inline store::ExtendResult noResult(Fate, const std::string&) {
  return {};
}
template <>
inline store::Leadership noResult(Fate, const std::string& reason) {
  return {.ours = false, .reason = reason};
}
template <>
inline store::MaintenanceResult noResult(Fate, const std::string& reason) {
  return {.ok = false, .reason = reason};
}

// An operation with its result and its callback.
template <typename Result>
class ResultOperation : public Operation {
public:
  ResultOperation(Kind kind, store::Deadline deadline, size_t bytes,
                  std::function<void(Result)> done)
      : Operation(kind, deadline, bytes), done_(std::move(done)) {}

  void fail(Fate fate, const std::string& reason) override { result_ = without(fate, reason); }
  void answer() override {
    if (done_) {
      std::exchange(done_, nullptr)(std::move(result_));
    }
  }
  // Leaves the result alone: the I/O thread may be writing it.
  std::function<void()> answerWithout(Fate fate, const std::string& reason) override {
    return [done = std::exchange(done_, nullptr), result = without(fate, reason)] { done(result); };
  }
  bool isAnswered() const override { return !done_; }

protected:
  virtual Result without(Fate fate, const std::string& reason) const {
    return noResult<Result>(fate, reason);
  }
  Result& result() { return result_; }
  const Result& result() const { return result_; }

private:
  std::function<void(Result)> done_;
  Result result_{};
};

// A call of Records. It may be carried out more than once: after a rollback.
template <typename Result, typename Call>
class CallOperation final : public ResultOperation<Result> {
public:
  CallOperation(Operation::Kind kind, store::Deadline deadline, size_t bytes, Call call,
                std::function<void(Result)> done)
      : ResultOperation<Result>(kind, deadline, bytes, std::move(done)), call_(std::move(call)) {}

  void carryOut(Records& records) override { this->result() = call_(records); }

private:
  const Call call_;
};

class ClaimOperation : public ResultOperation<store::ClaimResult> {
public:
  ClaimOperation(store::Deadline deadline, size_t bytes, store::ClaimRequest request,
                 std::function<void(store::ClaimResult)> done)
      : ResultOperation(Kind::Claim, deadline, bytes, std::move(done)),
        request_(std::move(request)) {}

  protocol::Attempt attempt() const override { return request_.attempt; }
  store::ClaimRef claim() const override { return {request_.identity, request_.attempt}; }
  void carryOut(Records& records) override { result() = records.claim(request_); }
  size_t resultBytes() const override {
    const auto* const exists = std::get_if<store::Exists>(&result());
    return exists != nullptr && exists->record.response ? exists->record.response->size() : 0;
  }
  void answer() override {
    if (abandoned && std::holds_alternative<store::Claimed>(result())) {
      result() = store::InDoubt{"abandoned"};
    }
    ResultOperation::answer();
  }
  bool leavesOrphan() const override {
    return std::holds_alternative<store::InDoubt>(result()) ||
           (std::holds_alternative<store::Claimed>(result()) && (abandoned || isAnswered()));
  }

private:
  const store::ClaimRequest request_;
};

class LookUpOperation : public ResultOperation<store::LookUpResult> {
public:
  LookUpOperation(store::Deadline deadline, size_t bytes, protocol::Identity identity,
                  std::function<void(store::LookUpResult)> done)
      : ResultOperation(Kind::LookUp, deadline, bytes, std::move(done)),
        identity_(std::move(identity)) {}

  void carryOut(Records& records) override { result() = records.lookUp(identity_); }
  size_t resultBytes() const override {
    const auto* const record = std::get_if<store::Record>(&result());
    return record != nullptr && record->response ? record->response->size() : 0;
  }

private:
  const protocol::Identity identity_;
};

class ExtendOperation : public ResultOperation<store::ExtendResult> {
public:
  ExtendOperation(store::Deadline deadline, size_t bytes, std::vector<store::ClaimRef> claims,
                  std::chrono::milliseconds lease, std::function<void(store::ExtendResult)> done)
      : ResultOperation(Kind::Write, deadline, bytes, std::move(done)),
        claims_(std::move(claims)),
        lease_(lease) {}

  void carryOut(Records& records) override { result() = records.extend(claims_, lease_); }

protected:
  store::ExtendResult without(Fate fate, const std::string& reason) const override {
    return store::ExtendResult(claims_.size(), noResult<store::WriteResult>(fate, reason));
  }

private:
  const std::vector<store::ClaimRef> claims_;
  const std::chrono::milliseconds lease_;
};

// Releases an orphan. Internal to the store: no caller waits for it.
class WithdrawOperation : public ResultOperation<store::WriteResult> {
public:
  explicit WithdrawOperation(store::ClaimRef claim)
      : ResultOperation(Kind::Own, store::Deadline::max(), sizeof(WithdrawOperation), nullptr),
        claim_(std::move(claim)) {}

  store::ClaimRef claim() const override { return claim_; }
  void carryOut(Records& records) override {
    result() = records.settle(claim_, protocol::Released{});
  }
  bool mustRepeat() const override {
    switch (result().outcome) {
      case store::WriteOutcome::Unavailable:
      case store::WriteOutcome::InDoubt:
      case store::WriteOutcome::Locked:
        return true;
      case store::WriteOutcome::Fenced:
      case store::WriteOutcome::Done:
        break;
    }
    return false;
  }

private:
  const store::ClaimRef claim_;
};

}  // namespace idempotency::sqlite
