// The input is what a store gave back as a stored response.

#include <string>

#include "source/message/headers.h"
#include "source/message/replay.h"
#include "source/message/stored_response.h"
#include "test/fuzz/fuzz.h"

namespace idempotency {
namespace {

// Nothing that goes out can split a response or carry what must not be replayed.
void checkFields(const protocol::FieldList& fields) {
  for (const auto& [name, value] : fields) {
    FUZZ_CHECK(message::isSafeField(name, value));
    FUZZ_CHECK(name != "set-cookie" && name != "transfer-encoding" && name != "connection");
  }
}

size_t count(const protocol::FieldList& fields, std::string_view wanted) {
  size_t found = 0;
  for (const auto& [name, value] : fields) {
    found += name == wanted ? 1 : 0;
  }
  return found;
}

void checkReplay(const protocol::StoredResponse& response, bool head) {
  const auto replay = message::buildReplay(response, {.head = head, .expires_at = 0});
  FUZZ_CHECK(replay.has_value());
  FUZZ_CHECK(replay->status == response.status);
  checkFields(replay->headers);
  checkFields(replay->trailers);
  FUZZ_CHECK(count(replay->headers, "idempotent-replayed") == 1);
  FUZZ_CHECK(count(replay->headers, "idempotency-key-expires") == 1);
  FUZZ_CHECK(count(replay->headers, "content-length") <= 1);
  FUZZ_CHECK(!head || (replay->body.empty() && count(replay->headers, "content-length") == 0));
  for (const auto& [name, value] : replay->headers) {
    FUZZ_CHECK(name != "content-length" || value == std::to_string(replay->body.size()));
  }
}

}  // namespace
}  // namespace idempotency

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace idempotency;
  const std::string_view bytes = fuzzText(data, size);
  const auto response = message::parseResponse(bytes);
  if (!response.ok()) {
    FUZZ_CHECK(!response.status().message().empty());
    return 0;
  }
  FUZZ_CHECK(response->body.size() <= size);
  const auto again = message::parseResponse(message::serializeResponse(*response));
  FUZZ_CHECK(again.ok() && *again == *response);
  checkReplay(*response, false);
  checkReplay(*response, true);
  return 0;
}
