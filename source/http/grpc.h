#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace idempotency::http {

// Whether a content type is gRPC's: application/grpc, also with a suffix (+proto) or parameters.
// grpc-web is not.
bool isGrpc(std::string_view content_type);

// gRPC responses have HTTP status 200 and their own status in `grpc-status`. The policies of this
// filter use HTTP statuses, so a gRPC status counts as the corresponding HTTP status in gRPC's own
// mapping (UNAVAILABLE as 503). None if the text is not a gRPC status.
[[nodiscard]] std::optional<int> httpStatusOfGrpc(std::string_view grpc_status);

// The value of grpc-message: printable ASCII unchanged, other bytes and % as %XX.
std::string encodeGrpcMessage(std::string_view message);

}  // namespace idempotency::http
