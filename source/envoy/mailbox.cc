#include "source/envoy/mailbox.h"

#include <utility>

namespace idempotency::envoy {
namespace {

// A mailbox has only one thing to say to its owner: look inside.
constexpr uint64_t MailEvent = 1;

}  // namespace

Scheduler Scheduler::forStream(raw::StreamPtr stream) {
  return {Kind::Stream, raw::envoy_dynamic_module_callback_http_filter_scheduler_new(stream)};
}

Scheduler Scheduler::forConfig(raw::ConfigPtr config) {
  return {Kind::Config,
          raw::envoy_dynamic_module_callback_http_filter_config_scheduler_new(config)};
}

Scheduler::Scheduler(Scheduler&& other) noexcept
    : kind_(other.kind_), handle_(std::exchange(other.handle_, nullptr)) {}

Scheduler::~Scheduler() {
  if (handle_ == nullptr) {
    return;
  }
  switch (kind_) {
    case Kind::Stream:
      raw::envoy_dynamic_module_callback_http_filter_scheduler_delete(handle_);
      break;
    case Kind::Config:
      raw::envoy_dynamic_module_callback_http_filter_config_scheduler_delete(handle_);
      break;
  }
}

void Scheduler::commit(uint64_t event) const {
  switch (kind_) {
    case Kind::Stream:
      raw::envoy_dynamic_module_callback_http_filter_scheduler_commit(handle_, event);
      break;
    case Kind::Config:
      raw::envoy_dynamic_module_callback_http_filter_config_scheduler_commit(handle_, event);
      break;
  }
}

bool Mailbox::post(Task task) {
  {
    std::lock_guard lock(mutex_);
    if (closed_) {
      return false;
    }
    tasks_.push_back(std::move(task));
  }
  // One event per task: a drain that stopped at a throwing task is called again for the ones behind
  // it.
  scheduler_.commit(MailEvent);
  return true;
}

void Mailbox::drain() {
  while (Task task = take()) {
    task();
  }
}

void Mailbox::close() {
  std::vector<Task> dropped;
  std::lock_guard lock(mutex_);
  closed_ = true;
  next_ = 0;
  dropped.swap(tasks_);  // Destroyed after the lock is given back.
}

Mailbox::Task Mailbox::take() {
  std::lock_guard lock(mutex_);
  if (next_ == tasks_.size()) {
    tasks_.clear();
    next_ = 0;
    return {};
  }
  return std::move(tasks_[next_++]);
}

}  // namespace idempotency::envoy
