#pragma once

#include <string_view>

#include "source/config/field_errors.h"

namespace google::protobuf {
class Message;
}

namespace idempotency::config {

// Fills an empty message from JSON in protobuf's JSON mapping, more strictly than protobuf's own
// parser and with errors that name the field and never show what may be secret (that parser prints
// the text around a mistake).
//
// Refused: what is not JSON, unknown fields, a field given twice (also once as snake_case and once
// as lowerCamelCase), two fields of a oneof, null, wrong types, numbers with a fraction for
// integers, enum values by number, empty lists (but for google.protobuf.ListValue, where an empty
// list is a value). Numbers may be written 3 or 3.0, as a Struct gives them; 64-bit integers also
// as strings of digits.
//
// Text of no bytes counts as {}: Envoy gives it for a config that is not there.
void readJson(std::string_view json, google::protobuf::Message& message, FieldErrors& errors);

}  // namespace idempotency::config
