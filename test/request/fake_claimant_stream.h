#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/status.h>

#include "source/fingerprint/fingerprint.h"
#include "source/request/claimant.h"
#include "source/runtime/admission.h"
#include "test/request/task_queue.h"

namespace idempotency::test {

inline fingerprint::Fingerprint fingerprintFor(uint8_t version, uint8_t request) {
  fingerprint::Fingerprint fingerprint{};
  fingerprint[0] = version;
  fingerprint[1] = request;
  return fingerprint;
}

// Notes what it is told.
class FakeClaimantStream : public request::ClaimantStream {
public:
  request::Post post() override { return worker.post(); }
  std::optional<fingerprint::FingerprintResult> fingerprint(uint8_t version) override {
    versions.push_back(version);
    if (!hashes) {
      return std::nullopt;
    }
    return fingerprint::FingerprintResult{fingerprintFor(version, request), body_form};
  }
  runtime::Refusal enter() override { return enter_refusal; }
  runtime::Refusal beginWait() override { return wait_refusal; }
  void onNext(const request::Next& what) override { next.push_back(what); }
  void onEvent(request::ClaimEvent event) override { events.push_back(event); }
  void onFound(const protocol::Decision&) override { ++found; }
  void onClaimAnswered(store::Deadline) override { ++claims_answered; }
  void onStoreError(std::string_view reason) override { errors.emplace_back(reason); }
  void onUnreadable(const absl::Status& why) override { unreadable.push_back(why); }

  TaskQueue worker;
  uint8_t request = 1;  // Others are other requests.
  bool hashes = true;
  fingerprint::BodyForm body_form = fingerprint::BodyForm::CanonicalJson;
  runtime::Refusal enter_refusal = runtime::Refusal::None;
  runtime::Refusal wait_refusal = runtime::Refusal::None;

  std::vector<uint8_t> versions;
  std::vector<request::Next> next;
  std::vector<request::ClaimEvent> events;
  std::vector<std::string> errors;
  std::vector<absl::Status> unreadable;
  int found = 0;
  int claims_answered = 0;
};

}  // namespace idempotency::test
