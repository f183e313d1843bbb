#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "source/request/claim_keeper.h"

namespace idempotency::test {

// Writes down which claims it was given, and writes none.
class FakeKeeper : public request::ClaimKeeper {
public:
  struct Settling {
    protocol::Ending ending;
    std::shared_ptr<const runtime::CompletedRecord> completed;
    runtime::OnSettled report;
  };

  void settle(const runtime::HeldClaim&, protocol::Ending ending,
              std::shared_ptr<const runtime::CompletedRecord> completed,
              runtime::OnSettled report) override {
    if (failures > 0) {
      --failures;
      throw std::bad_alloc();
    }
    settled.push_back({std::move(ending), std::move(completed), std::move(report)});
  }
  void passOn(runtime::HeldClaim claim) override { passed_on.push_back(std::move(claim)); }
  void letLeaseEnd(protocol::Attempt attempt) override { let_end.push_back(attempt); }
  std::optional<std::chrono::milliseconds> reconcileAfter(
      const std::string& /*operation*/) const override {
    return std::chrono::seconds(3);
  }

  int failures = 0;  // That many calls throw.
  std::vector<Settling> settled;
  std::vector<runtime::HeldClaim> passed_on;
  std::vector<protocol::Attempt> let_end;
};

}  // namespace idempotency::test
