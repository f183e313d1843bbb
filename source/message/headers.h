#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/protocol/policy.h"
#include "source/protocol/record.h"

namespace idempotency::message {

// The elements of a comma-separated list, in lower case.
[[nodiscard]] std::vector<std::string> splitList(std::string_view value);

// The headers or trailers of a response that are stored, in order. Not stored are:
//   - pseudo-headers and hop-by-hop fields (including the names that `connection` lists);
//   - set-cookie and authentication, which are valid for one client and for a short time;
//   - content-length, which is computed again for a replay;
//   - server and x-envoy-*, which describe the responding Envoy, not the operation;
//   - the filter's own headers, which no upstream may forge;
//   - the names of policy.unstored_headers.
// `date` is stored, because a replay shows what happened then.
// None if a field that would be stored must not be replayed: see isSafeField.
[[nodiscard]] std::optional<protocol::FieldList> fieldsToStore(
    const protocol::Policy& policy, std::span<const protocol::FieldView> fields);

// Whether a field can be sent without splitting the response: the name is a token in lower case,
// the value has no CR, LF or NUL. Envoy's module interface checks neither. Checked before storing
// and again before replaying.
bool isSafeField(std::string_view name, std::string_view value);

// Whether fieldsToStore always omits the name. `lower_name` is in lower case.
bool isNeverStored(std::string_view lower_name);

// Lets scripts of other origins read the filter's headers: adds their names to
// access-control-expose-headers.
void exposeOwnHeaders(protocol::FieldList& headers);

// Whether a response uses CORS: it has access-control-allow-origin.
bool usesCors(const protocol::FieldList& headers);

// Whether a content-length announces more bytes than this. A number that does not fit into 64 bits
// does; an absent one (empty) and what is no number do not.
bool announcesMoreThan(std::string_view content_length, uint64_t bytes);

// The value of access-control-expose-headers with the filter's headers added; none if `value` needs
// no change.
[[nodiscard]] std::optional<std::string> exposedWithOwnHeaders(std::string_view value);

}  // namespace idempotency::message
