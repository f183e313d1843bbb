#include "source/protocol/declared_outcome.h"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "source/http/header_names.h"
#include "source/key/structured_field.h"

namespace idempotency::protocol {
namespace {

using enum DeclaredOutcome;

constexpr std::array Words = {
    std::pair{std::string_view("not-run"), NotRun},
    std::pair{std::string_view("retryable"), Retryable},
    std::pair{std::string_view("completed"), Completed},
    std::pair{std::string_view("unknown"), Unknown},
};

DeclaredOutcome outcomeOf(const key::ListMember& member) {
  if (member.inner_list || member.item.kind != key::BareItem::Kind::Token) {
    return Invalid;
  }
  const std::string word = http::toLower(member.item.text);
  for (const auto& [name, outcome] : Words) {
    if (word == name) {
      return outcome;
    }
  }
  return Invalid;
}

}  // namespace

DeclaredOutcome parseDeclaredOutcome(std::span<const std::string_view> lines) {
  if (lines.empty()) {
    return None;
  }
  const std::optional<std::vector<key::ListMember>> members = key::parseList(lines);
  if (!members.has_value() || members->empty()) {
    return Invalid;
  }
  const DeclaredOutcome first = outcomeOf(members->front());
  for (const key::ListMember& member : *members) {
    if (outcomeOf(member) != first) {
      return Invalid;
    }
  }
  return first;
}

}  // namespace idempotency::protocol
