#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "source/protocol/policy.h"
#include "source/protocol/problem.h"
#include "source/protocol/record.h"

namespace idempotency::message {

// An answer as it is sent to the client.
struct HttpAnswer {
  int status = 503;
  protocol::FieldList headers;  // Without pseudo-headers and content-length.
  std::string body;
};

struct AnswerContext {
  // The request is application/grpc: the answer is then a gRPC status without a body.
  bool grpc = false;
  // When the record expires, in seconds since 1970. None if there is no record.
  std::optional<int64_t> expires_at = {};
  // Asynchronous: the path of the run's status resource. Empty: none.
  std::string location = {};
  // The preferences of the client that the answer follows. Empty: none.
  std::string preference_applied = {};
  // Of a GET request: no cache may keep it.
  bool no_store = false;
};

// Renders an answer in the policy's flavor: status, Retry-After, a link to the documentation and
// the body. It contains only fixed texts, numbers and the policy's own URL, and never the key or
// anything else that the client sent.
HttpAnswer renderAnswer(const protocol::Policy& policy, const protocol::Answer& answer,
                        const AnswerContext& context);

}  // namespace idempotency::message
