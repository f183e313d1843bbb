#pragma once

#include <string>
#include <string_view>

namespace idempotency::fingerprint {

// The value of Content-Type in normalized form: type, subtype and parameter names in lower case, no
// spaces around semicolons, no empty parameters. Parameter values and their order stay, because
// `version=2` or a profile can change the meaning of a body. Only `charset=utf-8` of a JSON type is
// removed, because RFC 8259 allows JSON no other charset. A value that is not a media type only
// loses its outer spaces. The result is a view of `content_type` if that is already normalized,
// else of `scratch`.
std::string_view normalMediaType(std::string_view content_type, std::string& scratch);

// Whether the value of Content-Type declares JSON: application/json, or a subtype that ends with
// `+json` (RFC 6839). Case and parameters do not matter.
bool isJsonMediaType(std::string_view content_type);

}  // namespace idempotency::fingerprint
