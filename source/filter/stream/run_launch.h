#pragma once

#include <memory>

#include "source/envoy/stream.h"
#include "source/filter/backend/backend.h"
#include "source/request/detached_run.h"

namespace idempotency::filter {

// Sends the stream's request, which is complete, to the private listener. `ends_with_headers`: it
// has no body, not even an empty one. If the listener does not take over the run, the claim is
// released and the client gets an answer. Worker thread of the stream; nothing here blocks.
void launchRun(envoy::Stream stream, const std::shared_ptr<Backend>& backend,
               const std::shared_ptr<request::DetachedRun>& run, bool ends_with_headers);

}  // namespace idempotency::filter
