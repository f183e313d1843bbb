#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace idempotency::fingerprint {

// The parts of `:path`. A fragment never reaches a server, so `#` has no special meaning.
struct SplitPath {
  std::string_view path;
  std::optional<std::string_view> query;  // After the first `?`. None differs from empty.
};
SplitPath splitPath(std::string_view path_and_query);

// Whether the order of parameters with different names matters.
enum class QueryOrder : uint8_t {
  Sorted,  // No, unless normalQuery() finds that it may have a meaning.
  AsSent,  // Yes.
};

struct NormalQuery {
  std::string_view text;  // A view of the query, or of `scratch`.
  bool as_sent;           // The query is unchanged, including its order.
};

// The query in normalized order, by version 2. Parameters, names and octets are as in
// sortedQuery(). But servers may treat two different names as one, and then their order has a
// meaning:
// - Names that differ only in case, or in `.` versus `_`, keep their order, as equal names do.
// - The whole query stays as sent if a name contains a bracket (`items[][id]` builds lists in the
//   order of parameters), `%` or `+` (after decoding it may equal another name, or contain a
//   bracket), or if there is a `;` (some servers treat it as a separator).
NormalQuery normalQuery(std::string_view query, QueryOrder order, std::string& scratch);

// By version 1: the query with its parameters sorted by name. `&` separates parameters; a name ends
// at the first `=`. Parameters with the same name keep their order and are all kept: `a=1&a=2` and
// `a=2&a=1` can be two different requests. Octets are compared as they are: nothing is decoded
// (neither `%41` nor `+`), nothing is removed (not even empty parameters), so only the order of
// parameters with different names is lost. The result is a view of `query` if that is already
// sorted, else of `scratch`.
std::string_view sortedQuery(std::string_view query, std::string& scratch);

}  // namespace idempotency::fingerprint
