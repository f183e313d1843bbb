#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace idempotency {

// The parts of `:path`. A fragment never reaches a server, so `#` is a byte like others.
struct SplitPath {
  std::string_view path;
  std::optional<std::string_view> query;  // Behind the first `?`. None is not the same as empty.
};
SplitPath splitPath(std::string_view path_and_query);

// The query with its parameters sorted by name. Parameters are what stands between `&`; the name
// ends at the first `=`. Parameters of one name keep their order and are all kept: `a=1&a=2` and
// `a=2&a=1` can be two different requests. Octets are compared as they are: nothing is decoded (no
// `%41`, no `+`), nothing is dropped (not even empty parameters), so that only the order of
// differently named parameters is forgotten. The result is a view of `query` if that is sorted
// already, else of `scratch`.
std::string_view sortedQuery(std::string_view query, std::string& scratch);

}  // namespace idempotency
