#include "source/http/grpc.h"

#include <array>
#include <charconv>
#include <fmt/format.h>

#include "source/http/header_names.h"

namespace idempotency::http {
namespace {

// By gRPC status: OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND,
// ALREADY_EXISTS, PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED,
// OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS, UNAUTHENTICATED.
constexpr std::array HttpStatuses = {200, 499, 500, 400, 504, 404, 409, 403, 429,
                                     400, 409, 400, 501, 500, 503, 500, 401};

}  // namespace

bool isGrpc(std::string_view content_type) {
  const std::string lower = toLower(content_type);
  constexpr std::string_view Type = "application/grpc";
  return lower.starts_with(Type) &&
         (lower.size() == Type.size() ||
          std::string_view("+; \t").find(lower[Type.size()]) != std::string_view::npos);
}

std::optional<int> httpStatusOfGrpc(std::string_view grpc_status) {
  size_t number = 0;
  const char* end = grpc_status.data() + grpc_status.size();
  const auto result = std::from_chars(grpc_status.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end || number >= HttpStatuses.size()) {
    return std::nullopt;
  }
  return HttpStatuses[number];
}

std::string encodeGrpcMessage(std::string_view message) {
  std::string encoded;
  for (const char c : message) {
    if (c >= 0x20 && c < 0x7f && c != '%') {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

}  // namespace idempotency::http
