#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "source/protocol/settings.h"
#include "source/runtime/byte_budget.h"
#include "source/runtime/tenant_shares.h"

namespace idempotency::runtime {

// Why a request is not admitted.
enum class Refusal : uint8_t {
  None,  // It is admitted.
  InFlight,
  Bytes,
  TenantInFlight,
  TenantBytes,
  TenantWaiters,
};

// Limits what requests may use: the number of requests, the bytes of their bodies, and waiting. If
// there are several tenants, each has a share. Any thread; the only lock is that of the tenant's
// shard, at the start and at the end of a request.
//
// Requests may use three quarters of the bytes. The rest is for responses, whose requests have
// already run: a response that does not fit is not stored, and so cannot be replayed. Small ones
// are always kept, because dropping them would save little, so the budget may be exceeded by
// SmallResponse for each request in flight. Bytes on their way to the store are counted and never
// refused; the store and the settler limit them (queue_bytes).
class Admission {
public:
  // Responses up to this size are always kept.
  static constexpr uint64_t SmallResponse = 4096;

  explicit Admission(const protocol::LimitSettings& limits)
      : limits_(limits), bytes_(limits.held_bytes) {}
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // The place of one request, from its admission to its end; gives everything back when destroyed.
  // One thread at a time. An empty one counts nothing and refuses nothing.
  class Place {
  public:
    Place() = default;
    Place(Place&& other) noexcept;
    Place& operator=(Place&& other) noexcept;
    ~Place();
    explicit operator bool() const { return admission_ != nullptr; }

    // The request's body now has this many bytes. A refusal changes nothing.
    [[nodiscard]] Refusal holdRequest(uint64_t bytes);
    // The same, even if there is no room: the request was admitted, and is on its way.
    void keepRequest(uint64_t bytes);
    // The response's body. False if there is no room: then it must be streamed to the client.
    [[nodiscard]] bool holdResponse(uint64_t bytes);
    // This much is held, even if there is no room. 0: the body has been passed on.
    void hold(uint64_t bytes);
    // The request waits for another one, until endWait() or its end. May be called repeatedly.
    [[nodiscard]] Refusal beginWait();
    void endWait();

  private:
    friend class Admission;
    Place(Admission& admission, const protocol::TenantShare* share, TenantShares::Entry* tenant)
        : admission_(&admission),
          share_(share == nullptr ? protocol::TenantShare() : *share),
          tenant_(tenant),
          charge_(admission.bytes_) {}
    void setTenantBytes(uint64_t bytes);

    Admission* admission_ = nullptr;
    protocol::TenantShare share_;            // What the tenant may use,
    TenantShares::Entry* tenant_ = nullptr;  // and does. Null: everything, and it is not counted.
    ByteBudget::Charge charge_;
    uint64_t tenant_bytes_ = 0;  // Of the request's body, counted in the tenant's share.
    bool waits_ = false;
  };

  // Admits a request; with Refusal::None it has a place. `share` is what its tenant may use (null:
  // everything).
  [[nodiscard]] Refusal enter(const std::string& tenant, const protocol::TenantShare* share,
                              Place& place);
  // The same for a request that already holds a claim: it is always admitted.
  Place enterHolder(const std::string& tenant, const protocol::TenantShare* share);
  // For bytes that outlive their request, on their way to the store. Counted and never refused.
  [[nodiscard]] ByteBudget::Charge charge(uint64_t bytes);

  uint32_t inFlight() const { return in_flight_.load(std::memory_order_relaxed); }
  uint64_t heldBytes() const { return bytes_.used(); }

private:
  void leave(TenantShares::Entry* tenant);

  const protocol::LimitSettings limits_;
  std::atomic<uint32_t> in_flight_{0};
  ByteBudget bytes_;
  TenantShares tenants_;
};

}  // namespace idempotency::runtime
