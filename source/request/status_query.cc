#include "source/request/status_query.h"

#include <chrono>
#include <utility>

#include "source/protocol/key_hash.h"
#include "source/protocol/overloaded.h"
#include "source/request/store_results.h"

namespace idempotency::request {
namespace {

using std::chrono::steady_clock;

// Who may ask for a run by its name has sent the request.
protocol::FingerprintMatch isSame(const std::string& /*stored*/) {
  return protocol::FingerprintMatch::Same;
}

}  // namespace

StatusQuery::StatusQuery(const ClaimServices& services, ClaimantStream& stream,
                         std::shared_ptr<const protocol::Policy> policy,
                         protocol::Identity identity)
    : services_(services),
      stream_(stream),
      policy_(std::move(policy)),
      identity_(std::move(identity)),
      key_hash_(protocol::keyHash(identity_)) {}

Next StatusQuery::start() {
  completed_ = services_.cache.find(identity_, steady_clock::now());
  if (completed_ != nullptr) {
    stream_.onEvent(ClaimEvent::FoundInCache);
    expires_at_ = completed_->expires_at;
    return judge(factsOf(*completed_, isSame));
  }
  if (const runtime::Refusal refusal = stream_.enter(); refusal != runtime::Refusal::None) {
    return answerTo(refusal, *policy_);
  }
  asked_ = steady_clock::now();
  services_.store.lookUp(identity_, asked_ + services_.store_timeout,
                         answer_.expect(stream_.post(), [this](const store::LookUpResult& result) {
                           onLookUpResult(result);
                         }));
  return Hold{};
}

Next StatusQuery::judge(const protocol::StatusResult& result) const {
  return std::visit([](const auto& decision) { return Next(decision); },
                    protocol::decideStatus(*policy_, result));
}

void StatusQuery::onLookUpResult(const store::LookUpResult& result) {
  stream_.onNext(judge(std::visit(
      protocol::Overloaded{
          [&](const store::Unavailable& failure) -> protocol::StatusResult {
            if (failure.queue_full) {
              stream_.onEvent(ClaimEvent::QueueFull);
              return protocol::NoRoom{};
            }
            stream_.onStoreError(failure.reason);
            return protocol::StoreFailed{};
          },
          [&](const store::Absent&) -> protocol::StatusResult { return protocol::RecordAbsent{}; },
          [&](const store::Record& record) { return factsAbout(record); },
      },
      result)));
}

protocol::StatusResult StatusQuery::factsAbout(const store::Record& record) {
  if (record.state == protocol::RecordState::Completed) {
    expires_at_ = record.expires_at;
  }
  auto completed = completedRecord(record, asked_, key_hash_);
  if (!completed.ok()) {
    stream_.onUnreadable(completed.status());
  }
  completed_ = completed.ok() ? *std::move(completed) : nullptr;
  return factsOf(record, completed_.get(), isSame);
}

}  // namespace idempotency::request
