#include "source/fingerprint/query.h"

#include <algorithm>
#include <vector>

namespace idempotency {
namespace {

std::string_view nameOf(std::string_view parameter) {
  return parameter.substr(0, parameter.find('='));
}

bool nameLess(std::string_view a, std::string_view b) {
  return nameOf(a) < nameOf(b);
}

// Cuts the first parameter off. Without any left, `rest` becomes a null view.
std::string_view takeParameter(std::string_view& rest) {
  const size_t end = rest.find('&');
  const std::string_view parameter = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return parameter;
}

bool isSorted(std::string_view query) {
  std::string_view last = takeParameter(query);
  while (query.data() != nullptr) {
    const std::string_view next = takeParameter(query);
    if (nameLess(next, last)) {
      return false;
    }
    last = next;
  }
  return true;
}

std::vector<std::string_view> splitParameters(std::string_view query) {
  std::vector<std::string_view> parameters;
  parameters.reserve(static_cast<size_t>(std::count(query.begin(), query.end(), '&')) + 1);
  while (query.data() != nullptr) {
    parameters.push_back(takeParameter(query));
  }
  return parameters;
}

}  // namespace

SplitPath splitPath(std::string_view path_and_query) {
  const size_t mark = path_and_query.find('?');
  if (mark == std::string_view::npos) {
    return {path_and_query, std::nullopt};
  }
  return {path_and_query.substr(0, mark), path_and_query.substr(mark + 1)};
}

std::string_view sortedQuery(std::string_view query, std::string& scratch) {
  if (isSorted(query)) {
    return query;
  }
  std::vector<std::string_view> parameters = splitParameters(query);
  std::stable_sort(parameters.begin(), parameters.end(), nameLess);
  scratch.clear();
  scratch.reserve(query.size());
  for (const std::string_view parameter : parameters) {
    scratch += parameter;
    scratch += '&';
  }
  scratch.pop_back();
  return scratch;
}

}  // namespace idempotency
