#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "source/protocol/policy.h"
#include "source/protocol/record.h"

namespace idempotency {

// A header as Envoy shows it: a name in lower case and a value, neither of them ours.
using FieldView = std::pair<std::string_view, std::string_view>;

// What of a response's headers or trailers is stored, in order. Left out are:
//   - pseudo headers, and what belongs to the connection (also the names that `connection` lists);
//   - set-cookie and authentication: they are for one client and one moment;
//   - content-length, which a replay computes anew;
//   - server and x-envoy-*, which tell of the Envoy that answers, not of the operation;
//   - the filter's own headers, which no upstream may forge;
//   - the names of policy.unstored_headers.
// `date` is kept: a replay is what happened then.
// None if a field that would be stored must not be replayed: see isSafeField.
[[nodiscard]] std::optional<FieldList> fieldsToStore(const Policy& policy,
                                                     std::span<const FieldView> fields);

// Whether a field can be sent without splitting the response: the name is a token in lower case,
// the value has no CR, LF or NUL. Envoy's interface for modules checks neither. Asked when storing
// and again when replaying.
bool isSafeField(std::string_view name, std::string_view value);

// Whether fieldsToStore leaves the name out wherever it occurs. `lower_name` in lower case.
bool isNeverStored(std::string_view lower_name);

// Lets scripts in browsers read the filter's headers: where a response takes part in CORS (it has
// access-control-allow-origin), their names are added to its access-control-expose-headers.
void exposeOwnHeaders(FieldList& headers);

// The value of access-control-expose-headers that has the filter's headers too; none if `value`
// needs no change.
[[nodiscard]] std::optional<std::string> exposedWithOwnHeaders(std::string_view value);

}  // namespace idempotency
