// Stored responses as the module writes them, for tests that compare. Each line of the input is a
// response: {"status": 201, "headers": [["name", "value"], …], "body": "<hex>", "trailers": […]},
// with names in lower case, as Envoy has them. Its line of the output: the bytes in hex, or
// "unstorable".

#include <cstdint>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <absl/strings/escaping.h>
#include <simdjson.h>

#include "source/message/headers.h"
#include "source/message/stored_response.h"
#include "source/protocol/policy.h"

namespace {

using idempotency::protocol::FieldList;

// As the filter reads them: what is never stored is left out.
std::optional<FieldList> readFields(const simdjson::dom::array& pairs) {
  std::vector<idempotency::protocol::FieldView> fields;
  for (const simdjson::dom::element pair : pairs) {
    fields.emplace_back(pair.at(0).get_string().value(), pair.at(1).get_string().value());
  }
  return idempotency::message::fieldsToStore(idempotency::protocol::Policy(), fields);
}

std::string answer(const simdjson::dom::element& response) {
  const auto headers = readFields(response["headers"].get_array().value());
  const auto trailers = readFields(response["trailers"].get_array().value());
  if (!headers.has_value() || !trailers.has_value()) {
    return "unstorable";
  }
  return absl::BytesToHexString(idempotency::message::serializeResponse(
      {.status = static_cast<int32_t>(response["status"].get_int64().value()),
       .headers = *headers,
       .body = absl::HexStringToBytes(std::string(response["body"].get_string().value())),
       .trailers = *trailers}));
}

}  // namespace

int main() {
  simdjson::dom::parser parser;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << answer(parser.parse(line)) << '\n';
  }
  return 0;
}
