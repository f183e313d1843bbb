#include "source/store/postgres/breaker.h"

#include <algorithm>
#include <utility>

namespace idempotency::postgres {

Breaker::Breaker(BreakerSettings settings, std::function<double()> jitter)
    : settings_(settings), jitter_(std::move(jitter)), pause_(settings.first_pause) {}

bool Breaker::admit(Deadline now) {
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
  probing_ = false;
  pause_ = settings_.first_pause;
  reason_.clear();
}

void Breaker::onFailure(Deadline now, std::string reason) {
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
      return;  // What was under way when it opened.
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

void Breaker::open(Deadline now) {
  state_ = State::Open;
  probing_ = false;
  // Between half the pause and all of it.
  open_until_ =
      now + std::chrono::duration_cast<Deadline::duration>(pause_ * (0.5 + jitter_() / 2));
}

}  // namespace idempotency::postgres
