#pragma once

#include <string_view>

#include "source/operator_api/json_object.h"
#include "source/operator_api/json_writer.h"
#include "source/protocol/record.h"

// A response as a JSON object, as the API shows a stored one and as operators send one. The body is
// text in `body`, or other bytes in `body_base64`.
namespace idempotency::operator_api {

// Without the surrounding object and without its status.
void writeResponseParts(const protocol::StoredResponse& response, JsonWriter& json);

protocol::StoredResponse readResponse(JsonObject& object);

// The same, and notes as mistakes what must not be stored: a status that is not final, and fields
// that are not safe or never stored.
protocol::StoredResponse readStorableResponse(JsonObject& object);

}  // namespace idempotency::operator_api
