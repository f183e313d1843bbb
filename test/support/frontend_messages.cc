#include "test/support/frontend_messages.h"

#include <cstdint>
#include <cstring>
#include <endian.h>

namespace idempotency::test {
namespace {

constexpr char Bind = 'B';

// A message's size without its type, as its first bytes say.
size_t sizeAt(std::string_view bytes) {
  uint32_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof(size));
  return be32toh(size);
}

// The statement's name stands after the portal's.
std::string_view statementOf(std::string_view bind) {
  const size_t portal_end = bind.find('\0');
  const size_t name_end = bind.find('\0', portal_end + 1);
  return portal_end == std::string_view::npos || name_end == std::string_view::npos
             ? std::string_view()
             : bind.substr(portal_end + 1, name_end - portal_end - 1);
}

}  // namespace

void FrontendMessages::add(
    std::string_view bytes,
    const std::function<void(std::string_view statement, std::string_view message)>& tell) {
  rest_.append(bytes);
  std::string_view left = rest_;
  for (;;) {
    const size_t type = started_ ? 1 : 0;
    if (left.size() < type + sizeof(uint32_t)) {
      break;
    }
    const size_t whole = type + sizeAt(left.substr(type));
    if (left.size() < whole) {
      break;
    }
    if (started_ && left.front() == Bind) {
      const std::string_view body = left.substr(type + sizeof(uint32_t), whole - type - 4);
      tell(statementOf(body), body);
    }
    started_ = true;
    left.remove_prefix(whole);
  }
  rest_.erase(0, rest_.size() - left.size());
}

}  // namespace idempotency::test
