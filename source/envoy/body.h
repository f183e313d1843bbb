#pragma once

#include <string_view>
#include <vector>

#include "source/envoy/types.h"

namespace idempotency::envoy {

// One of a stream's four bodies. "Received" ones exist only inside the body hook of their
// direction. A view: worker thread only, invalid after the stream. Chunks stay valid until the hook
// returns or the same body is changed.
class Body {
public:
  Body(raw::StreamPtr stream, BodyKind kind) : stream_(stream), kind_(kind) {}

  size_t size() const {
    return raw::envoy_dynamic_module_callback_http_get_body_size(stream_, kind_);
  }

  // Appends the chunks, in order.
  void appendChunksTo(std::vector<std::string_view>& out) const {
    std::vector<raw::Bytes> chunks(
        raw::envoy_dynamic_module_callback_http_get_body_chunks_size(stream_, kind_));
    if (chunks.empty() ||
        !raw::envoy_dynamic_module_callback_http_get_body_chunks(stream_, kind_, chunks.data())) {
      return;
    }
    for (const raw::Bytes& chunk : chunks) {
      out.push_back(toView(chunk));
    }
  }

  // Envoy copies the bytes. If you change the body of a response, remove its content-length.
  bool append(std::string_view data) const {
    return raw::envoy_dynamic_module_callback_http_append_body(stream_, kind_, toBytes(data));
  }

  // Drops bytes from the front.
  bool drain(size_t bytes) const {
    return raw::envoy_dynamic_module_callback_http_drain_body(stream_, kind_, bytes);
  }

private:
  raw::StreamPtr stream_;
  BodyKind kind_;
};

}  // namespace idempotency::envoy
