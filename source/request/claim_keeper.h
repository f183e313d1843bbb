#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "source/protocol/record.h"
#include "source/runtime/held_claim.h"
#include "source/runtime/replay_cache.h"
#include "source/runtime/settler.h"

namespace idempotency::request {

// Where a request hands its claim over when its attempt ends. Any thread. It outlives the requests.
class ClaimKeeper {
public:
  virtual ~ClaimKeeper() = default;

  // Writes the outcome of a claim, whatever happens to its stream. `completed` is what can be
  // replayed after a completion; null: nothing. `report` as in SettleRequest; may be empty. If it
  // throws (no memory), the claim still belongs to the caller. What the upstream has completed in
  // its own transaction goes to waiters and to the cache as any completion.
  virtual void settle(const runtime::HeldClaim& claim, protocol::Ending ending,
                      std::shared_ptr<const runtime::CompletedRecord> completed,
                      runtime::OnSettled report) = 0;
  // Keeps a claim until the same request comes back in a new stream, after an internal redirect.
  virtual void passOn(runtime::HeldClaim claim) = 0;
  // No outcome can be written for this claim: once its lease has expired, the sweeper settles it.
  // Allocates nothing.
  virtual void letLeaseEnd(protocol::Attempt attempt) = 0;
  // When the upstream is asked about an unknown outcome of this operation. None: it is not asked.
  virtual std::optional<std::chrono::milliseconds> reconcileAfter(
      const std::string& operation) const = 0;
};

}  // namespace idempotency::request
