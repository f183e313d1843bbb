#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace idempotency {

// Whether a content type is gRPC's: application/grpc, also with a suffix (+proto) or parameters.
// grpc-web is not.
bool isGrpc(std::string_view content_type);

// gRPC answers with HTTP status 200 and tells its own in `grpc-status`. The policies of this filter
// speak of HTTP statuses, so a gRPC status counts as the HTTP status that stands for it in gRPC's
// own mapping (UNAVAILABLE as 503). None if the text is no gRPC status.
[[nodiscard]] std::optional<int> httpStatusOfGrpc(std::string_view grpc_status);

// The value of grpc-message: printable ASCII as it is, all else and % as %XX.
std::string encodeGrpcMessage(std::string_view message);

}  // namespace idempotency
