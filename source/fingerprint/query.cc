#include "source/fingerprint/query.h"

#include <algorithm>
#include <vector>

namespace idempotency::fingerprint {
namespace {

std::string_view nameOf(std::string_view parameter) {
  return parameter.substr(0, parameter.find('='));
}

using Less = bool (*)(std::string_view a, std::string_view b);

bool nameLess(std::string_view a, std::string_view b) {
  return nameOf(a) < nameOf(b);
}

// Names that a server may take for one become equal. Unsigned, since the order of a query must not
// depend on the machine: several Envoys share a store.
unsigned char folded(char c) {
  if (c >= 'A' && c <= 'Z') {
    return static_cast<unsigned char>(c - 'A' + 'a');
  }
  return static_cast<unsigned char>(c == '.' ? '_' : c);
}

bool foldedNameLess(std::string_view a, std::string_view b) {
  const std::string_view x = nameOf(a);
  const std::string_view y = nameOf(b);
  return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end(),
                                      [](char c, char d) { return folded(c) < folded(d); });
}

// Whether the order of parameters may mean something although no two names are equal.
bool orderMayCount(std::string_view query) {
  bool in_name = true;
  for (const char c : query) {
    if (c == ';' || (in_name && (c == '[' || c == ']' || c == '%' || c == '+'))) {
      return true;
    }
    in_name = c == '&' || (in_name && c != '=');
  }
  return false;
}

// Cuts the first parameter off. Without any left, `rest` becomes a null view.
std::string_view takeParameter(std::string_view& rest) {
  const size_t end = rest.find('&');
  const std::string_view parameter = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return parameter;
}

bool isSorted(std::string_view query, Less less) {
  std::string_view last = takeParameter(query);
  while (query.data() != nullptr) {
    const std::string_view next = takeParameter(query);
    if (less(next, last)) {
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

std::string_view sortedBy(Less less, std::string_view query, std::string& scratch) {
  if (isSorted(query, less)) {
    return query;
  }
  std::vector<std::string_view> parameters = splitParameters(query);
  std::stable_sort(parameters.begin(), parameters.end(), less);
  scratch.clear();
  scratch.reserve(query.size());
  for (const std::string_view parameter : parameters) {
    scratch += parameter;
    scratch += '&';
  }
  scratch.pop_back();
  return scratch;
}

}  // namespace

SplitPath splitPath(std::string_view path_and_query) {
  const size_t mark = path_and_query.find('?');
  if (mark == std::string_view::npos) {
    return {path_and_query, std::nullopt};
  }
  return {path_and_query.substr(0, mark), path_and_query.substr(mark + 1)};
}

NormalQuery normalQuery(std::string_view query, QueryOrder order, std::string& scratch) {
  if (order == QueryOrder::AsSent || orderMayCount(query)) {
    return {query, true};
  }
  return {sortedBy(foldedNameLess, query, scratch), false};
}

std::string_view sortedQuery(std::string_view query, std::string& scratch) {
  return sortedBy(nameLess, query, scratch);
}

}  // namespace idempotency::fingerprint
