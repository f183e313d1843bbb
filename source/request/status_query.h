#pragma once

#include <memory>
#include <optional>
#include <string>

#include "source/protocol/decide.h"
#include "source/protocol/policy.h"
#include "source/protocol/record.h"
#include "source/request/claimant.h"
#include "source/request/late_answer.h"
#include "source/runtime/replay_cache.h"
#include "source/store/store.h"

namespace idempotency::request {

// A client asks what became of its request. Reads the record, and changes nothing.
//
// Worker thread of the stream, as a Claimant.
class StatusQuery {
public:
  StatusQuery(const ClaimServices& services, ClaimantStream& stream,
              std::shared_ptr<const protocol::Policy> policy, protocol::Identity identity);

  // Once. An answer, a replay of completed(), or a Hold: then onNext() follows.
  [[nodiscard]] Next start();
  // onNext() is not called any more.
  void leave() { answer_.drop(); }

  const protocol::Identity& identity() const { return identity_; }
  const std::string& keyHash() const { return key_hash_; }
  const runtime::CompletedRecord& completed() const { return *completed_; }
  std::optional<store::StoreTime> expiresAt() const { return expires_at_; }

private:
  Next judge(const protocol::StatusResult& result) const;
  void onLookUpResult(const store::LookUpResult& result);
  protocol::StatusResult factsAbout(const store::Record& record);

  const ClaimServices services_;
  ClaimantStream& stream_;
  const std::shared_ptr<const protocol::Policy> policy_;
  const protocol::Identity identity_;
  const std::string key_hash_;
  LateAnswer answer_;
  store::Deadline asked_{};
  std::optional<store::StoreTime> expires_at_;
  std::shared_ptr<const runtime::CompletedRecord> completed_;
};

}  // namespace idempotency::request
