#include "source/operator_api/response_object.h"

#include <optional>
#include <string>
#include <utility>

#include "source/fingerprint/utf8.h"
#include "source/http/header_names.h"
#include "source/message/headers.h"
#include "source/operator_api/base64.h"

namespace idempotency::operator_api {
namespace {

constexpr int64_t FirstFinalStatus = 200;
constexpr int64_t LastStatus = 599;

void writeFields(std::string_view name, const protocol::FieldList& fields, JsonWriter& json) {
  json.beginArray(name);
  for (const auto& [field, value] : fields) {
    json.beginObject();
    json.text("name", field);
    json.text("value", value);
    json.endObject();
  }
  json.endArray();
}

protocol::FieldList readFields(JsonObject& object, std::string_view name) {
  protocol::FieldList fields;
  for (JsonObject& field : object.objects(name)) {
    std::string field_name = http::toLower(field.text("name"));
    fields.emplace_back(std::move(field_name), field.text("value"));
    field.refuseOthers();
  }
  return fields;
}

std::string readBody(JsonObject& object) {
  auto text = object.optionalText("body");
  const auto encoded = object.optionalText("body_base64");
  if (text.has_value() && encoded.has_value()) {
    object.fail("body_base64", "set either body or body_base64");
  }
  if (!encoded.has_value()) {
    return std::move(text).value_or("");
  }
  auto bytes = fromBase64(*encoded);
  if (!bytes.has_value()) {
    object.fail("body_base64", "must be base64 with padding");
  }
  return std::move(bytes).value_or("");
}

void checkFields(JsonObject& object, std::string_view name, const protocol::FieldList& fields) {
  for (const auto& [field, value] : fields) {
    if (!message::isSafeField(field, value)) {
      object.fail(name, "has a name or a value that no HTTP header may have");
    } else if (message::isNeverStored(field)) {
      object.fail(name, "has a header that is never stored, such as content-length or set-cookie");
    }
  }
}

}  // namespace

void writeResponseParts(const protocol::StoredResponse& response, JsonWriter& json) {
  writeFields("headers", response.headers, json);
  if (fingerprint::isUtf8(response.body)) {
    json.text("body", response.body);
  } else {
    json.text("body_base64", toBase64(response.body));
  }
  writeFields("trailers", response.trailers, json);
}

protocol::StoredResponse readResponse(JsonObject& object) {
  protocol::StoredResponse response;
  // Any other number is refused, and must not become a status.
  const int64_t status = object.number("status");
  response.status = status >= 0 && status <= LastStatus ? static_cast<int32_t>(status) : 0;
  response.headers = readFields(object, "headers");
  response.body = readBody(object);
  response.trailers = readFields(object, "trailers");
  return response;
}

protocol::StoredResponse readStorableResponse(JsonObject& object) {
  protocol::StoredResponse response = readResponse(object);
  if (response.status < FirstFinalStatus || response.status > LastStatus) {
    object.fail("status", "must be a status from 200 to 599");
  }
  checkFields(object, "headers", response.headers);
  checkFields(object, "trailers", response.trailers);
  return response;
}

}  // namespace idempotency::operator_api
