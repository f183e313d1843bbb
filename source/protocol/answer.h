#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "source/protocol/policy.h"
#include "source/protocol/problem.h"
#include "source/protocol/record.h"

namespace idempotency {

// An answer as it goes to the client.
struct HttpAnswer {
  int status = 503;
  FieldList headers;  // Without pseudo headers and content-length.
  std::string body;
};

struct AnswerContext {
  // The request came as application/grpc: the answer is then a gRPC status without a body.
  bool grpc = false;
  // When the record ends, in seconds since 1970. None: there is no record.
  std::optional<int64_t> expires_at = {};
};

// Puts an answer into the policy's flavor: status, Retry-After, a link to the documentation and the
// body. Only fixed texts, numbers and the policy's own URL go into it; never the key or anything
// else that the client sent.
HttpAnswer renderAnswer(const Policy& policy, const Answer& answer, const AnswerContext& context);

}  // namespace idempotency
