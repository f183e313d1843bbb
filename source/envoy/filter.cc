#include "source/envoy/filter.h"

namespace idempotency::envoy {

Filter::~Filter() {
  closeMailbox();
}

void Filter::closeMailbox() {
  if (mailbox_ != nullptr) {
    mailbox_->close();
  }
}

std::shared_ptr<Mailbox> Filter::mailbox() {
  if (mailbox_ == nullptr) {
    mailbox_ = std::make_shared<Mailbox>(Scheduler::forStream(stream_.handle()));
  }
  return mailbox_;
}

FilterFactory::~FilterFactory() {
  if (mailbox_ != nullptr) {
    mailbox_->close();
  }
}

std::shared_ptr<Mailbox> FilterFactory::mailbox() {
  if (mailbox_ == nullptr) {
    mailbox_ = std::make_shared<Mailbox>(Scheduler::forConfig(handle_.handle()));
  }
  return mailbox_;
}

const RouteConfig* routeConfig(Stream stream) {
  return static_cast<const RouteConfig*>(
      raw::envoy_dynamic_module_callback_get_most_specific_route_config(stream.handle()));
}

}  // namespace idempotency::envoy
