#include "source/http/status_set.h"

namespace idempotency::http {

bool StatusSet::contains(int status) const {
  return status >= MinStatus && status <= MaxStatus &&
         bits_.test(static_cast<size_t>(status - MinStatus));
}

void StatusSet::addRange(int first, int last) {
  for (int status = first; status <= last; ++status) {
    bits_.set(static_cast<size_t>(status - MinStatus));
  }
}

std::optional<int> StatusSet::firstCommon(const StatusSet& other) const {
  for (int status = MinStatus; status <= MaxStatus; ++status) {
    if (contains(status) && other.contains(status)) {
      return status;
    }
  }
  return std::nullopt;
}

std::optional<int> parseStatusClass(std::string_view text) {
  if (text.size() != 3 || text[0] < '1' || text[0] > '5' || text.substr(1) != "xx") {
    return std::nullopt;
  }
  return (text[0] - '0') * 100;
}

}  // namespace idempotency::http
