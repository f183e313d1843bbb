#pragma once

#include <vector>

#include "source/envoy/stream.h"
#include "source/message/answer.h"
#include "source/message/replay.h"
#include "source/protocol/policy.h"
#include "source/protocol/problem.h"
#include "source/protocol/record.h"

// Replies of the filter's own, in place of the upstream's. Worker thread, inside hooks or posted
// tasks. TERMINAL: see envoy::Stream.
namespace idempotency::filter {

// Whether the request is gRPC is found here.
void sendAnswer(envoy::Stream stream, const protocol::Policy& policy,
                const protocol::Answer& answer, message::AnswerContext context);
// The message must stay valid until this returns.
void sendReplay(envoy::Stream stream, const message::ReplayMessage& message);

// The message takes the place of the response that our hooks hold, whoever made that. All of it has
// arrived. The message must stay valid until this returns.
void replaceHeldResponse(envoy::Stream stream, const message::ReplayMessage& message);

// As Envoy takes them. They refer to the list.
std::vector<envoy::Field> toFields(const protocol::FieldList& list);

}  // namespace idempotency::filter
