#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "source/protocol/record.h"
#include "source/request/claim_keeper.h"
#include "source/request/late_answer.h"
#include "source/runtime/admission.h"
#include "source/runtime/byte_budget.h"
#include "source/runtime/held_claim.h"

namespace idempotency::request {

// Why a client does not get the response of its run, or the rest of it.
enum class RunFailure : uint8_t {
  NotStarted,  // The private listener did not take it over: nothing ran.
  Full,        // The same, because there are too many runs.
  TimedOut,    // It exceeded its time. It may have run.
  Lost,        // Its stream ended before its response. It may have run.
};

// The client's stream. On its worker, in a posted task.
class RunClient {
public:
  virtual ~RunClient() = default;

  // The private listener has taken over the run: it continues, whatever the client does.
  virtual void onRunStarted() = 0;
  // The response, in this order: headers, any number of pieces of the body, trailers. `end`:
  // nothing follows. `ending`: one word for access logs, a constant; empty if it is not known yet.
  virtual void onRunHeaders(const protocol::FieldList& headers, bool end,
                            std::string_view ending) = 0;
  virtual void onRunBody(const std::string& bytes, bool end) = 0;
  virtual void onRunTrailers(const protocol::FieldList& trailers) = 0;
  // The word, if it was not known at the headers or has changed. Before the end.
  virtual void onRunEnding(std::string_view ending) = 0;
  // Instead of the rest of the response. The last call.
  virtual void onRunFailed(RunFailure failure) = 0;
};

// The stream on the private listener. On its worker, in a posted task.
class RunStream {
public:
  virtual ~RunStream() = default;
  // The client has received what was sent, or has disconnected: the response may continue.
  virtual void onClientReady() = 0;
};

// What a run owns: its claim, and its place among the requests in flight. One owner at a time.
struct RunHold {
  runtime::HeldClaim claim;
  runtime::Admission::Place place;
};

// A request that runs whether or not its client waits. Two streams share it: the client's, which
// receives the response if it still exists, and the one on the private listener, which runs the
// request and settles its claim. They may be on different workers; each posts tasks to the other.
//
//   Starting ── start() ─▶ Running ── an internal redirect ─▶ Redirected ── start() ─▶ Running
//       │                                                         │
//       └── cancel(): nothing ran                                 └── cancel(): it may have run
//
// The claim and the place are the run's until start() gives them to the stream, so each has one
// owner, and the run is counted all the time. A run that still has them when it is cancelled or
// destroyed settles the claim and leaves the place.
//
// Any thread, unless a method says otherwise. The lock is held for a few assignments, never during
// a call to someone else. A shared_ptr owns it.
class DetachedRun : public std::enable_shared_from_this<DetachedRun> {
public:
  // `client` is used only in tasks of `to_client`, which end with the client's stream. `unsent`
  // counts what is on its way to the client, and nothing after leave(). The keeper is weak: a run
  // must not keep it from flushing its writes when the process stops.
  DetachedRun(std::weak_ptr<ClaimKeeper> keeper, RunHold hold, std::string key_hash,
              runtime::ByteBudget::Charge unsent, Post to_client, RunClient& client);
  ~DetachedRun();
  DetachedRun(const DetachedRun&) = delete;
  DetachedRun& operator=(const DetachedRun&) = delete;

  const std::string& keyHash() const { return key_hash_; }
  // --- Only before it can be started
  const runtime::HeldClaim& claim() const { return hold_->claim; }
  // The size of the request that is sent to the private listener.
  void holdRequest(uint64_t bytes) { hold_->place.keepRequest(bytes); }
  // The client wants to know when it starts.
  void announceStart() { announces_start_ = true; }

  // --- The run's stream
  // Takes over the claim and the place. None: the run was cancelled. `stream` as `client` above.
  std::optional<RunHold> start(Post to_run, RunStream& stream);
  // The stream ends, and the request continues in another one. False: the connection has already
  // ended, so nothing can start any more. Then the claim is settled, and the client gets its
  // answer.
  [[nodiscard]] bool redirect(RunHold hold);
  // Whether a client still waits for the response.
  bool hasClient() const;
  void sendHeaders(protocol::FieldList headers, bool end, std::string_view ending);
  void sendBody(std::string bytes, bool end);
  void sendTrailers(protocol::FieldList trailers);
  void sendEnding(std::string_view ending);
  // No response, or no more of it: Lost, or TimedOut after onTimeout().
  void fail();
  // False: the client reads more slowly than the response arrives. Then onClientReady() follows.
  [[nodiscard]] bool mayContinue();

  // --- The client's stream
  // The client no longer waits.
  void leave();
  // The client received this many bytes of the body.
  void onSent(uint64_t bytes);
  void onClientSlow(bool slow);

  // --- The connection to the private listener
  // The connection ends: what has not started cannot start any more. If the run still has its
  // claim, settles it with `keeper`, then answers the client, and returns true. `failure` is for a
  // run that was not redirected: Lost if it may have run, otherwise it did not run.
  bool cancel(RunFailure failure, ClaimKeeper& keeper);
  // The connection is closed because the run has exceeded its time.
  void onTimeout() { timed_out_ = true; }

private:
  // Runs when a claim is settled, or cannot be settled; immediately or later, on any thread.
  using Then = std::function<void()>;
  static void settle(ClaimKeeper& keeper, const runtime::HeldClaim& claim, bool may_have_run,
                     Then then);
  // The same with its own keeper, if there is still one.
  void settle(const runtime::HeldClaim& claim, bool may_have_run, Then then);
  void tellFailure(RunFailure failure);
  void toClient(std::function<void(RunClient&)> task);
  void countUnsent();
  bool isReady() const;
  void resumeIfReady();

  const std::weak_ptr<ClaimKeeper> keeper_;
  const std::string key_hash_;
  bool announces_start_ = false;
  std::atomic<bool> timed_out_{false};

  // Of the client.
  std::atomic<uint64_t> unsent_{0};  // Bytes of the body on their way to it.
  std::atomic<bool> slow_{false};    // Its connection is full.
  std::atomic<bool> left_{false};
  std::atomic<bool> paused_{false};  // The run's stream waits for onClientReady().

  mutable std::mutex mutex_;
  std::optional<RunHold> hold_;          // Guarded by mutex_. Until start().
  bool cancelled_ = false;               // Guarded by mutex_.
  Post to_client_;                       // Guarded by mutex_. Empty: no client.
  runtime::ByteBudget::Charge counted_;  // Guarded by mutex_. As unsent_; 0 without a client.
  RunClient* const client_;
  Post to_run_;                  // Guarded by mutex_.
  RunStream* stream_ = nullptr;  // Guarded by mutex_.
};

}  // namespace idempotency::request
