#pragma once

#include <string>
#include <string_view>

namespace idempotency {

// The value of Content-Type, brought to one spelling: type, subtype and parameter names in lower
// case, no spaces around semicolons, empty parameters dropped. Parameter values and their order
// stay: `version=2` or a profile can change what a body means. Only `charset=utf-8` of a JSON type
// goes, since RFC 8259 gives JSON no other charset. What does not look like a media type only loses
// outer spaces. The result is a view of `content_type` if that has this form already, else of
// `scratch`.
std::string_view normalMediaType(std::string_view content_type, std::string& scratch);

// Whether the value of Content-Type says JSON: application/json, or any subtype that ends with
// `+json` (RFC 6839). Case and parameters do not matter.
bool isJsonMediaType(std::string_view content_type);

}  // namespace idempotency
