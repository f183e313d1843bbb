#include "source/operator_api/record_id.h"

#include <cstddef>
#include <cstdint>

#include "source/operator_api/base64.h"

namespace idempotency::operator_api {
namespace {

constexpr size_t LengthBytes = 2;
// Three names with their lengths; no store takes longer ones.
constexpr size_t MostDigits = 4096;

void append(std::string_view name, std::string& bytes) {
  bytes += static_cast<char>(name.size() >> 8);
  bytes += static_cast<char>(name.size() & 0xff);
  bytes += name;
}

// Takes a name from the front.
std::optional<std::string> takeName(std::string_view& bytes) {
  if (bytes.size() < LengthBytes) {
    return std::nullopt;
  }
  const size_t length = static_cast<size_t>(static_cast<uint8_t>(bytes[0])) << 8 |
                        static_cast<size_t>(static_cast<uint8_t>(bytes[1]));
  bytes.remove_prefix(LengthBytes);
  if (bytes.size() < length) {
    return std::nullopt;
  }
  const std::string_view name = bytes.substr(0, length);
  bytes.remove_prefix(length);
  return std::string(name);
}

}  // namespace

std::string recordId(const protocol::Identity& identity) {
  std::string bytes;
  append(identity.tenant, bytes);
  append(identity.operation, bytes);
  append(identity.key, bytes);
  return toBase64Url(bytes);
}

std::optional<protocol::Identity> parseRecordId(std::string_view id) {
  const auto decoded = id.size() <= MostDigits ? fromBase64Url(id) : std::nullopt;
  if (!decoded.has_value()) {
    return std::nullopt;
  }
  std::string_view bytes = *decoded;
  auto tenant = takeName(bytes);
  auto operation = takeName(bytes);
  auto key = takeName(bytes);
  if (!tenant.has_value() || !operation.has_value() || !key.has_value() || !bytes.empty()) {
    return std::nullopt;
  }
  return protocol::Identity{*std::move(tenant), *std::move(operation), *std::move(key)};
}

}  // namespace idempotency::operator_api
