#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "source/envoy/stream.h"
#include "source/message/replay.h"
#include "source/protocol/declared_outcome.h"
#include "source/protocol/outcome.h"
#include "source/protocol/policy.h"
#include "source/request/running_attempt.h"
#include "source/request/upstream_response.h"
#include "source/runtime/replay_cache.h"

// What a response says, as values. Worker thread, inside hooks.
namespace idempotency::filter {

// Whether Envoy says that this response comes from the upstream. True only in the hook of the
// response's headers; later events overwrite it.
bool isFromUpstream(envoy::Stream stream);

// The response that passes through Envoy.
class StreamResponse : public request::UpstreamResponse {
public:
  explicit StreamResponse(envoy::Stream stream) : stream_(stream) {}

  // UpstreamResponse
  int status() const override;
  protocol::DeclaredOutcome takeDeclaredInHeaders() override;
  protocol::DeclaredOutcome takeDeclaredInTrailers() override;
  bool announcesDeclaration() const override;
  bool isTooLongToHold(const protocol::Policy& policy) const override;
  protocol::Observation observeCall() const override;
  void observeWhole(std::optional<std::string_view> beginning,
                    protocol::Observation& seen) const override;
  std::optional<request::ResponseFields> fieldsToStore(
      const protocol::Policy& policy) const override;
  uint64_t bodySize() const override;
  std::string body() const override;
  std::string beginning() const override;
  void allowToHold(uint64_t bytes) override;
  void mark(const request::ResponseMark& mark) override;

private:
  const envoy::Stream stream_;
};

// In the access log: the upstream has completed the record in its own transaction.
inline constexpr std::string_view ByUpstreamWord = "by_upstream";
// What decides how the response to a request must look.
struct RequestTraits {
  bool head = false;
  bool cross_origin = false;
};
RequestTraits traitsOf(envoy::Stream stream);
// The response to the attempt itself, made of what the upstream has completed. None: it cannot be
// sent. Any thread.
std::optional<message::ReplayMessage> answerFrom(const runtime::CompletedRecord& completed,
                                                 const RequestTraits& request);

// The response's headers have come. Removes those that only the filter sends, and tells the attempt
// what they mean, unless it expects no response any more. `local_reply`: Envoy or another filter
// answers instead of the upstream.
void observeHeaders(envoy::Stream stream, request::RunningAttempt& attempt, bool local_reply,
                    bool end);

}  // namespace idempotency::filter
