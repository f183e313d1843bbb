#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "source/store/sqlite/records.h"
#include "source/store/store.h"

namespace idempotency::sqlite {

// Why an operation has no result.
enum class Fate : uint8_t {
  NotDone,  // For sure.
  InDoubt,
};

// One operation from its call until its callback has run. The queue owns it. Three parties touch
// it, each only what is its own: the I/O thread carries it out, the store's thread answers, and
// whoever holds the queue's lock cancels.
class Operation {
public:
  enum class Kind : uint8_t {
    Claim,
    LookUp,
    Write,  // By an attempt that holds its claim. Served before others when space is short.
    Maintenance,
    Own,  // The store's own release of a claim that nobody runs for.
  };

  Operation(Kind kind, Deadline deadline, size_t bytes)
      : kind_(kind), deadline_(deadline), bytes_(bytes) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  Kind kind() const { return kind_; }
  Deadline deadline() const { return deadline_; }
  // What it holds in memory.
  size_t bytes() const { return bytes_; }
  // Claims only; 0 for others.
  virtual Attempt attempt() const { return 0; }
  // Claims and the store's own.
  virtual ClaimRef claim() const { return {}; }

  // Whoever comes first, the one thread that carries out or the one that cancels, has it.
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
  // The callback's run with no result, for one that cannot wait for it.
  virtual std::function<void()> answerWithout(Fate fate, const std::string& reason) = 0;
  // Whether the callback has run, or there is none.
  virtual bool isAnswered() const = 0;
  // After it is over: whether a claim is left, or may be, that the caller does not know to be its
  // own.
  virtual bool leavesClaim() const { return false; }
  // Own: whether it must be tried again.
  virtual bool unsettled() const { return false; }

  // Claims only, under the queue's lock: the caller will not use it.
  bool abandoned = false;

private:
  enum class Phase : uint8_t { Waiting, Started, Cancelled };
  bool take(Phase phase) {
    Phase expected = Phase::Waiting;
    return phase_.compare_exchange_strong(expected, phase);
  }

  const Kind kind_;
  const Deadline deadline_;
  const size_t bytes_;
  std::atomic<Phase> phase_{Phase::Waiting};
};

// How each kind of result says that there is none.
inline ClaimResult noResult(const ClaimRequest&, Fate fate, const std::string& reason) {
  if (fate == Fate::InDoubt) {
    return InDoubt{reason};
  }
  return Unavailable{reason};
}
inline LookUpResult noResult(const LookUpRequest&, Fate, const std::string& reason) {
  return Unavailable{reason};
}
inline Leadership noResult(const LeadRequest&, Fate, const std::string& reason) {
  return {.ours = false, .reason = reason};
}
inline MaintenanceResult noResult(const SweepRequest&, Fate, const std::string& reason) {
  return {.ok = false, .reason = reason};
}
inline MaintenanceResult noResult(const ReapRequest&, Fate, const std::string& reason) {
  return {.ok = false, .reason = reason};
}
template <typename Write>
WriteResult noResult(const Write&, Fate fate, const std::string& reason) {
  return {.outcome = fate == Fate::InDoubt ? WriteOutcome::InDoubt : WriteOutcome::Unavailable,
          .reason = reason};
}
inline ExtendResult noResult(const ExtendRequest& request, Fate fate, const std::string& reason) {
  return ExtendResult(request.claims.size(), noResult(ReleaseRequest{}, fate, reason));
}

template <typename Request, typename Result>
class TypedOperation : public Operation {
public:
  TypedOperation(Kind kind, Deadline deadline, size_t bytes, Request request,
                 std::function<void(Result)> done)
      : Operation(kind, deadline, bytes), request_(std::move(request)), done_(std::move(done)) {}

  void carryOut(Records& records) override { result_ = records.run(request_); }
  void fail(Fate fate, const std::string& reason) override {
    result_ = noResult(request_, fate, reason);
  }
  void answer() override {
    if (done_) {
      std::exchange(done_, nullptr)(std::move(result_));
    }
  }
  std::function<void()> answerWithout(Fate fate, const std::string& reason) override {
    return [done = std::exchange(done_, nullptr), result = noResult(request_, fate, reason)] {
      done(result);
    };
  }

  bool isAnswered() const override { return !done_; }

protected:
  const Request& request() const { return request_; }
  Result& result() { return result_; }
  const Result& result() const { return result_; }

private:
  const Request request_;
  std::function<void(Result)> done_;
  Result result_{};
};

class ClaimOperation : public TypedOperation<ClaimRequest, ClaimResult> {
public:
  using TypedOperation::TypedOperation;

  Attempt attempt() const override { return request().attempt; }
  ClaimRef claim() const override { return {request().identity, request().attempt}; }
  size_t resultBytes() const override {
    const auto* const exists = std::get_if<Exists>(&result());
    return exists != nullptr && exists->record.response ? exists->record.response->size() : 0;
  }
  void answer() override {
    if (abandoned && std::holds_alternative<Claimed>(result())) {
      result() = InDoubt{"abandoned"};
    }
    TypedOperation::answer();
  }
  bool leavesClaim() const override {
    return std::holds_alternative<InDoubt>(result()) ||
           (std::holds_alternative<Claimed>(result()) && (abandoned || isAnswered()));
  }
};

class LookUpOperation : public TypedOperation<LookUpRequest, LookUpResult> {
public:
  using TypedOperation::TypedOperation;

  size_t resultBytes() const override {
    const auto* const record = std::get_if<Record>(&result());
    return record != nullptr && record->response ? record->response->size() : 0;
  }
};

// The store's own: nobody waits for it.
class SettleOperation : public TypedOperation<ReleaseRequest, WriteResult> {
public:
  explicit SettleOperation(ClaimRef claim)
      : TypedOperation(Kind::Own, Deadline::max(), sizeof(SettleOperation),
                       ReleaseRequest{std::move(claim)}, nullptr) {}

  ClaimRef claim() const override { return request().claim; }
  bool unsettled() const override {
    switch (result().outcome) {
      case WriteOutcome::Unavailable:
      case WriteOutcome::InDoubt:
        return true;
      case WriteOutcome::Fenced:
      case WriteOutcome::Done:
        break;
    }
    return false;
  }
};

}  // namespace idempotency::sqlite
