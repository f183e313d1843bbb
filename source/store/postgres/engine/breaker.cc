#include "source/store/postgres/engine/breaker.h"

#include <algorithm>
#include <utility>

namespace idempotency::postgres {

Breaker::Breaker(BreakerSettings settings, std::function<double()> jitter)
    : settings_(settings), jitter_(std::move(jitter)), pause_(settings.first_pause) {}

bool Breaker::admit(store::MonotonicTime now) {
  switch (state_) {
    case State::Closed:
      return true;
    case State::Open:
      if (now < open_until_) {
        return false;
      }
      state_ = State::HalfOpen;
      probing_ = true;
      return true;
    case State::HalfOpen:
      return !std::exchange(probing_, true);
  }
  return false;
}

void Breaker::onSuccess() {
  state_ = State::Closed;
  failures_ = 0;
  timeouts_ = 0;
  several_tenants_ = false;
  probing_ = false;
  pause_ = settings_.first_pause;
  reason_.clear();
}

void Breaker::onFailure(store::MonotonicTime now, std::string reason) {
  reason_ = std::move(reason);
  switch (state_) {
    case State::Closed:
      if (++failures_ >= settings_.failures) {
        open(now);
      }
      return;
    case State::HalfOpen:
      pause_ = std::min(pause_ * 2, settings_.longest_pause);
      open(now);
      return;
    case State::Open:
      return;  // An operation that was in progress when it opened.
  }
}

void Breaker::onTimeout(store::MonotonicTime now, const std::string& tenant, std::string reason) {
  if (state_ != State::Closed) {
    onNoVerdict();
    return;
  }
  if (timeouts_++ == 0) {
    first_timeout_ = tenant;
  }
  several_tenants_ = several_tenants_ || tenant != first_timeout_;
  if (several_tenants_ && failures_ + timeouts_ >= settings_.failures) {
    reason_ = std::move(reason);
    open(now);
  }
}

void Breaker::onNoVerdict() {
  probing_ = false;
}

void Breaker::onConnected() {
  if (state_ == State::Open) {
    state_ = State::HalfOpen;
    probing_ = false;
  }
}

void Breaker::open(store::MonotonicTime now) {
  state_ = State::Open;
  probing_ = false;
  // Between half the pause and all of it.
  open_until_ =
      now + std::chrono::duration_cast<store::Deadline::duration>(pause_ * (0.5 + jitter_() / 2));
}

}  // namespace idempotency::postgres
