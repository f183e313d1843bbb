#pragma once

#include <bitset>
#include <cstddef>
#include <optional>
#include <string_view>

namespace idempotency::http {

inline constexpr int MinStatus = 100;
inline constexpr int MaxStatus = 599;

// A set of HTTP statuses with one bit per status, because it is used on the request path.
class StatusSet {
public:
  // Statuses outside 100 … 599 are in no set.
  bool contains(int status) const;
  // REQUIRES: MinStatus <= first <= last <= MaxStatus.
  void addRange(int first, int last);
  bool empty() const { return bits_.none(); }
  // The lowest status that is in both sets.
  std::optional<int> firstCommon(const StatusSet& other) const;
  bool operator==(const StatusSet&) const = default;

private:
  std::bitset<MaxStatus - MinStatus + 1> bits_;
};

// A class of statuses as written in configs: "5xx" is 500 … 599. Returns the first status of the
// class.
[[nodiscard]] std::optional<int> parseStatusClass(std::string_view text);

}  // namespace idempotency::http
