// The input is the JSON of a filter's config and of a route's, whichever it fits.

#include <algorithm>
#include <string>
#include <string_view>

#include <google/protobuf/util/json_util.h>

#include "api/idempotency/v1/idempotency.pb.h"
#include "source/config/config.h"
#include "source/config/json_message.h"
#include "test/fuzz/fuzz.h"

namespace idempotency {
namespace {

constexpr size_t MaxMessageBytes = 16 << 10;

// An error is one readable, bounded line that names a field.
void checkError(const absl::Status& status) {
  const std::string message(status.message());
  FUZZ_CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  FUZZ_CHECK(!message.empty() && message.size() <= MaxMessageBytes);
  FUZZ_CHECK(message.find(": ") != std::string::npos);
  FUZZ_CHECK(std::none_of(message.begin(), message.end(),
                          [](unsigned char c) { return c < 0x20 || c == 0x7f; }));
}

void checkPolicy(const protocol::Policy& policy) {
  FUZZ_CHECK(policy.key.min_length >= 1 && policy.key.min_length <= policy.key.max_length);
  FUZZ_CHECK(policy.key.max_length <= key::KeyLengthLimit);
  FUZZ_CHECK(!policy.methods.empty());
  FUZZ_CHECK(std::is_sorted(policy.methods.begin(), policy.methods.end()));
  FUZZ_CHECK(std::is_sorted(policy.unstored_headers.begin(), policy.unstored_headers.end()));
  FUZZ_CHECK(policy.lease >= std::chrono::seconds(1) && policy.lease <= policy.ttl);
  FUZZ_CHECK(policy.completion_timeout <= policy.lease);
  FUZZ_CHECK((policy.in_flight.action == protocol::InFlightAction::Wait) ==
             (policy.in_flight.wait > std::chrono::milliseconds(0)));
  FUZZ_CHECK(policy.fingerprint.principal == policy.principal.has_value());
  FUZZ_CHECK(!policy.retryable_statuses.firstCommon(policy.released_statuses).has_value());
}

// Our reader is stricter than protobuf's: what it takes, protobuf takes too, and reads the same.
template <typename Message>
void checkAgainstProtobuf(std::string_view json) {
  Message ours;
  config::FieldErrors errors;
  config::readJson(json, ours, errors);
  if (!errors.empty() || json.empty()) {
    return;
  }
  Message theirs;
  const auto status =
      google::protobuf::util::JsonStringToMessage({json.data(), json.size()}, &theirs);
  FUZZ_CHECK(status.ok());
  FUZZ_CHECK(ours.SerializeAsString() == theirs.SerializeAsString());
}

}  // namespace
}  // namespace idempotency

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace idempotency;
  const std::string_view json = fuzzText(data, size);
  const auto filter = config::loadFilterConfig(json);
  if (filter.ok()) {
    const auto policy = config::resolvePolicy(*filter, nullptr);
    FUZZ_CHECK(policy.ok());
    checkPolicy(*policy);
    FUZZ_CHECK(!filter->tenant_sources.empty());
    FUZZ_CHECK(config::loadFilterConfig(json)->store == filter->store);
  } else {
    checkError(filter.status());
  }
  const auto route = config::loadRouteConfig(json);
  if (route.ok()) {
    const auto policy = config::resolvePolicy(config::FilterConfig{}, &*route);
    FUZZ_CHECK(policy.ok());
    checkPolicy(*policy);
  } else {
    checkError(route.status());
  }
  checkAgainstProtobuf<v1::FilterConfig>(json);
  checkAgainstProtobuf<v1::RouteConfig>(json);
  return 0;
}
