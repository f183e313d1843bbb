#include "source/fingerprint/json_pointer_set.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "source/fingerprint/json_escape.h"

namespace idempotency::fingerprint {
namespace {

bool tokensLess(const JsonPointer& a, const JsonPointer& b) {
  return a.tokens() < b.tokens();
}

// RFC 6901, section 4: an array index has no leading zeros. `-` names no element that exists.
std::optional<uint32_t> arrayIndex(std::string_view token) {
  if (token.empty() || (token.size() > 1 && token.front() == '0')) {
    return std::nullopt;
  }
  uint32_t index = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), index);
  if (error != std::errc() || end != token.data() + token.size()) {
    return std::nullopt;
  }
  return index;
}

}  // namespace

JsonPointerSet::JsonPointerSet() {
  build();
}

JsonPointerSet::JsonPointerSet(std::initializer_list<JsonPointer> pointers) : pointers_(pointers) {
  build();
}

JsonPointerSet::JsonPointerSet(const std::vector<JsonPointer>& pointers) : pointers_(pointers) {
  build();
}

void JsonPointerSet::push_back(const JsonPointer& pointer) {
  pointers_.push_back(pointer);
  build();
}

void JsonPointerSet::build() {
  std::sort(pointers_.begin(), pointers_.end(), tokensLess);
  pointers_.erase(std::unique(pointers_.begin(), pointers_.end()), pointers_.end());
  nodes_.assign(1, Node());
  buildNode(0, 0, pointers_.size(), 0);
}

// The pointers from `begin` to `end` have their first `depth` tokens in common. Recursion is as
// deep as a pointer: at most MaxJsonDepth.
void JsonPointerSet::buildNode(uint32_t node, size_t begin, size_t end, size_t depth) {
  if (begin < end && pointers_[begin].tokens().size() == depth) {
    nodes_[node].pointer_ = static_cast<uint32_t>(begin++);
  }
  while (begin < end) {
    const std::string& token = pointers_[begin].tokens()[depth];
    size_t next = begin + 1;
    while (next < end && pointers_[next].tokens()[depth] == token) {
      ++next;
    }
    buildNode(addChild(node, token), begin, next, depth + 1);
    begin = next;
  }
  std::sort(nodes_[node].members_.begin(), nodes_[node].members_.end(),
            [](const auto& a, const auto& b) { return a.canonical_name < b.canonical_name; });
  std::sort(nodes_[node].elements_.begin(), nodes_[node].elements_.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
}

uint32_t JsonPointerSet::addChild(uint32_t node, const std::string& token) {
  const auto child = static_cast<uint32_t>(nodes_.size());
  nodes_.emplace_back();
  nodes_[node].members_.push_back({canonicalString(token), child});
  if (const std::optional<uint32_t> index = arrayIndex(token)) {
    nodes_[node].elements_.push_back({*index, child});
  }
  return child;
}

const JsonPointerSet::Node* JsonPointerSet::member(const Node& node,
                                                   std::string_view canonical_name) const {
  const auto found = std::lower_bound(
      node.members_.begin(), node.members_.end(), canonical_name,
      [](const auto& member, std::string_view name) { return member.canonical_name < name; });
  if (found == node.members_.end() || found->canonical_name != canonical_name) {
    return nullptr;
  }
  return &nodes_[found->node];
}

const JsonPointerSet::Node* JsonPointerSet::element(const Node& node, uint32_t index) const {
  const auto found =
      std::lower_bound(node.elements_.begin(), node.elements_.end(), index,
                       [](const auto& element, uint32_t wanted) { return element.index < wanted; });
  if (found == node.elements_.end() || found->index != index) {
    return nullptr;
  }
  return &nodes_[found->node];
}

}  // namespace idempotency::fingerprint
