#include "source/request/detached_run.h"

#include <functional>
#include <utility>

#include "source/protocol/outcome.h"

namespace idempotency::request {
namespace {

// How many bytes may be on their way to the client's worker before the response must wait.
constexpr uint64_t MostUnsent = 256 << 10;

}  // namespace

DetachedRun::DetachedRun(std::weak_ptr<ClaimKeeper> keeper, RunHold hold, std::string key_hash,
                         runtime::ByteBudget::Charge unsent, Post to_client, RunClient& client)
    : keeper_(std::move(keeper)),
      key_hash_(std::move(key_hash)),
      hold_(std::move(hold)),
      to_client_(std::move(to_client)),
      counted_(std::move(unsent)),
      client_(&client) {}

DetachedRun::~DetachedRun() {
  if (hold_.has_value()) {
    settle(hold_->claim, hold_->claim.redirected, [] {});
  }
}

void DetachedRun::settle(const runtime::HeldClaim& claim, bool may_have_run, Then then) {
  if (const std::shared_ptr<ClaimKeeper> keeper = keeper_.lock()) {
    settle(*keeper, claim, may_have_run, std::move(then));
  } else {
    then();  // The process stops: the lease will end.
  }
}

void DetachedRun::settle(ClaimKeeper& keeper, const runtime::HeldClaim& claim, bool may_have_run,
                         Then then) {
  try {
    protocol::Ending ending = protocol::Released{};
    if (may_have_run) {
      ending = protocol::endingOfLost(*claim.policy, "stream_lost",
                                      keeper.reconcileAfter(claim.ref.identity.operation));
    }
    keeper.settle(claim, std::move(ending), nullptr,
                  [then](const runtime::SettleReport&) { then(); });
  } catch (...) {
    keeper.letLeaseEnd(claim.ref.attempt);  // No memory, say.
    then();
  }
}

// --- The run's stream ---------------------------------------------------------------------------

std::optional<RunHold> DetachedRun::start(Post to_run, RunStream& stream) {
  std::optional<RunHold> hold;
  {
    const std::lock_guard lock(mutex_);
    if (!hold_.has_value()) {
      return std::nullopt;
    }
    to_run_ = std::move(to_run);
    stream_ = &stream;
    hold.swap(hold_);
  }
  if (announces_start_ && !hold->claim.redirected) {
    try {
      toClient([](RunClient& client) { client.onRunStarted(); });
    } catch (...) {  // No memory: the client waits for the response instead.
    }
  }
  return hold;
}

bool DetachedRun::redirect(RunHold hold) {
  {
    const std::lock_guard lock(mutex_);
    if (!cancelled_) {
      hold_.emplace(std::move(hold));
      return true;
    }
  }
  settle(hold.claim, hold.claim.redirected, [self = shared_from_this()] { self->fail(); });
  return false;
}

bool DetachedRun::hasClient() const {
  return !left_;
}

void DetachedRun::toClient(std::function<void(RunClient&)> task) {
  Post post;
  {
    const std::lock_guard lock(mutex_);
    post = to_client_;
  }
  if (post) {
    post([client = client_, task = std::move(task)] { task(*client); });
  }
}

void DetachedRun::sendHeaders(protocol::FieldList headers, bool end, std::string_view ending) {
  toClient([headers = std::move(headers), end, ending](RunClient& client) {
    client.onRunHeaders(headers, end, ending);
  });
}

void DetachedRun::sendBody(std::string bytes, bool end) {
  unsent_ += bytes.size();
  countUnsent();
  toClient([bytes = std::move(bytes), end](RunClient& client) { client.onRunBody(bytes, end); });
}

void DetachedRun::sendTrailers(protocol::FieldList trailers) {
  toClient([trailers = std::move(trailers)](RunClient& client) { client.onRunTrailers(trailers); });
}

void DetachedRun::sendEnding(std::string_view ending) {
  toClient([ending](RunClient& client) { client.onRunEnding(ending); });
}

void DetachedRun::fail() {
  tellFailure(timed_out_ ? RunFailure::TimedOut : RunFailure::Lost);
}

void DetachedRun::tellFailure(RunFailure failure) {
  toClient([failure](RunClient& client) { client.onRunFailed(failure); });
}

// The last one that changes unsent_ also counts it last.
void DetachedRun::countUnsent() {
  const std::lock_guard lock(mutex_);
  if (to_client_) {
    counted_.set(unsent_);
  }
}

bool DetachedRun::isReady() const {
  return left_ || (!slow_ && unsent_ < MostUnsent);
}

bool DetachedRun::mayContinue() {
  if (isReady()) {
    return true;
  }
  // Sets the mark first and then looks again, so that another thread that makes it ready in between
  // sees one or the other.
  paused_ = true;
  return isReady() && paused_.exchange(false);
}

// --- The client's stream ------------------------------------------------------------------------

void DetachedRun::leave() {
  {
    const std::lock_guard lock(mutex_);
    to_client_ = nullptr;
    counted_.set(0);
  }
  left_ = true;
  resumeIfReady();
}

void DetachedRun::onSent(uint64_t bytes) {
  unsent_ -= bytes;
  countUnsent();
  resumeIfReady();
}

void DetachedRun::onClientSlow(bool slow) {
  slow_ = slow;
  resumeIfReady();
}

void DetachedRun::resumeIfReady() {
  if (!isReady() || !paused_.exchange(false)) {
    return;
  }
  Post post;
  RunStream* stream = nullptr;
  {
    const std::lock_guard lock(mutex_);
    post = to_run_;
    stream = stream_;
  }
  if (post) {
    post([stream] { stream->onClientReady(); });
  }
}

// --- The connection -----------------------------------------------------------------------------

bool DetachedRun::cancel(RunFailure failure, ClaimKeeper& keeper) {
  std::optional<RunHold> hold;
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    hold.swap(hold_);
  }
  if (!hold.has_value()) {
    return false;
  }
  hold->place = runtime::Admission::Place();
  const runtime::HeldClaim& claim = hold->claim;
  Then tell;
  try {
    tell = [self = shared_from_this(), redirected = claim.redirected, failure] {
      if (redirected) {
        self->fail();
      } else {
        self->tellFailure(failure);
      }
    };
  } catch (...) {  // No memory.
    keeper.letLeaseEnd(claim.ref.attempt);
    throw;
  }
  // The client hears of it afterwards, so that it can retry immediately.
  settle(keeper, claim, claim.redirected || failure == RunFailure::Lost, std::move(tell));
  return true;
}

}  // namespace idempotency::request
