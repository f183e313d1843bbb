#include "source/runtime/admission.h"

#include <limits>
#include <utility>

namespace idempotency::runtime {

// --- A place

Admission::Place::Place(Place&& other) noexcept
    : admission_(std::exchange(other.admission_, nullptr)),
      share_(other.share_),
      tenant_(std::exchange(other.tenant_, nullptr)),
      charge_(std::move(other.charge_)),
      tenant_bytes_(std::exchange(other.tenant_bytes_, 0)),
      waits_(std::exchange(other.waits_, false)) {}

Admission::Place& Admission::Place::operator=(Place&& other) noexcept {
  std::swap(admission_, other.admission_);
  std::swap(share_, other.share_);
  std::swap(tenant_, other.tenant_);
  std::swap(charge_, other.charge_);
  std::swap(tenant_bytes_, other.tenant_bytes_);
  std::swap(waits_, other.waits_);
  return *this;
}

Admission::Place::~Place() {
  if (admission_ == nullptr) {
    return;
  }
  hold(0);
  endWait();
  admission_->leave(tenant_);
}

Refusal Admission::Place::holdRequest(uint64_t bytes) {
  if (admission_ == nullptr) {
    return Refusal::None;
  }
  const uint64_t before = tenant_bytes_;
  setTenantBytes(bytes);
  if (tenant_ != nullptr && bytes > before &&
      tenant_->second.bytes.load(std::memory_order_relaxed) > share_.request_bytes) {
    setTenantBytes(before);
    return Refusal::TenantBytes;
  }
  if (!charge_.trySet(bytes, admission_->limits_.requestBytes())) {
    setTenantBytes(before);
    return Refusal::Bytes;
  }
  return Refusal::None;
}

void Admission::Place::keepRequest(uint64_t bytes) {
  setTenantBytes(bytes);
  charge_.set(bytes);
}

bool Admission::Place::holdResponse(uint64_t bytes) {
  if (bytes <= SmallResponse) {
    charge_.set(bytes);
    return true;
  }
  return admission_ == nullptr || charge_.trySet(bytes, admission_->limits_.held_bytes);
}

void Admission::Place::hold(uint64_t bytes) {
  setTenantBytes(0);
  charge_.set(bytes);
}

void Admission::Place::setTenantBytes(uint64_t bytes) {
  if (tenant_ != nullptr && bytes != tenant_bytes_) {
    // Wraps, as in ByteBudget.
    tenant_->second.bytes.fetch_add(bytes - tenant_bytes_, std::memory_order_relaxed);
    tenant_bytes_ = bytes;
  }
}

Refusal Admission::Place::beginWait() {
  if (tenant_ == nullptr || waits_) {
    return Refusal::None;
  }
  const uint32_t before = tenant_->second.waiters.fetch_add(1, std::memory_order_relaxed);
  if (before >= share_.waiters) {
    tenant_->second.waiters.fetch_sub(1, std::memory_order_relaxed);
    return Refusal::TenantWaiters;
  }
  waits_ = true;
  return Refusal::None;
}

void Admission::Place::endWait() {
  if (std::exchange(waits_, false)) {
    tenant_->second.waiters.fetch_sub(1, std::memory_order_relaxed);
  }
}

// --- Entry

Refusal Admission::enter(const std::string& tenant, const protocol::TenantShare* share,
                         Place& place) {
  // A body would not find room either; without one, the response would not.
  if (bytes_.used() >= limits_.requestBytes()) {
    return Refusal::Bytes;
  }
  TenantShares::Entry* entry = nullptr;
  if (share != nullptr) {
    entry = tenants_.enter(tenant, share->in_flight);
    if (entry == nullptr) {
      return Refusal::TenantInFlight;
    }
  }
  if (in_flight_.fetch_add(1, std::memory_order_relaxed) >= limits_.in_flight) {
    leave(entry);
    return Refusal::InFlight;
  }
  place = Place(*this, share, entry);
  return Refusal::None;
}

Admission::Place Admission::enterHolder(const std::string& tenant,
                                        const protocol::TenantShare* share) {
  TenantShares::Entry* const entry =
      share == nullptr ? nullptr : tenants_.enter(tenant, std::numeric_limits<uint32_t>::max());
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  return {*this, share, entry};
}

ByteBudget::Charge Admission::charge(uint64_t bytes) {
  ByteBudget::Charge charge(bytes_);
  charge.set(bytes);
  return charge;
}

void Admission::leave(TenantShares::Entry* tenant) {
  if (tenant != nullptr) {
    tenants_.leave(tenant);
  }
  in_flight_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace idempotency::runtime
