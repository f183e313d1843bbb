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

std::vector<std::string_view> splitParameters(std::string_view query) {
  std::vector<std::string_view> parameters;
  parameters.reserve(static_cast<size_t>(std::count(query.begin(), query.end(), '&')) + 1);
  for (size_t begin = 0; begin <= query.size();) {
    const size_t end = std::min(query.find('&', begin), query.size());
    parameters.push_back(query.substr(begin, end - begin));
    begin = end + 1;
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

std::string sortedQuery(std::string_view query) {
  std::vector<std::string_view> parameters = splitParameters(query);
  if (std::is_sorted(parameters.begin(), parameters.end(), nameLess)) {
    return std::string(query);
  }
  std::stable_sort(parameters.begin(), parameters.end(), nameLess);
  std::string out;
  out.reserve(query.size());
  for (const std::string_view& parameter : parameters) {
    if (&parameter != &parameters.front()) {
      out += '&';
    }
    out += parameter;
  }
  return out;
}

}  // namespace idempotency
