#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "source/fingerprint/json_pointer.h"

namespace idempotency::fingerprint {

// JSON Pointers as a tree, so that a reader that descends into a document finds the matching ones
// without comparing all of them at each step. Filled at config time. The order and repetition of
// pointers do not matter.
class JsonPointerSet {
public:
  // A position in the tree: all pointers that start with the same tokens.
  class Node;

  JsonPointerSet();
  JsonPointerSet(std::initializer_list<JsonPointer> pointers);
  explicit JsonPointerSet(const std::vector<JsonPointer>& pointers);

  void push_back(const JsonPointer& pointer);

  bool empty() const { return pointers_.empty(); }
  size_t size() const { return pointers_.size(); }

  // The pointers, sorted by their tokens.
  std::vector<JsonPointer>::const_iterator begin() const { return pointers_.begin(); }
  std::vector<JsonPointer>::const_iterator end() const { return pointers_.end(); }

  const Node* root() const { return nodes_.data(); }

  // One step down; null if no pointer leads there. The name is the text between the quotes in
  // canonical JSON, so it can be compared without decoding.
  const Node* member(const Node& node, std::string_view canonical_name) const;
  const Node* element(const Node& node, uint32_t index) const;

  bool operator==(const JsonPointerSet& other) const { return pointers_ == other.pointers_; }

private:
  void build();
  void buildNode(uint32_t node, size_t begin, size_t end, size_t depth);
  uint32_t addChild(uint32_t node, const std::string& token);

  std::vector<JsonPointer> pointers_;
  std::vector<Node> nodes_;  // The root first.
};

class JsonPointerSet::Node {
public:
  static constexpr uint32_t NoPointer = UINT32_MAX;

  // Which pointer ends here: its index in the order of the set, or NoPointer.
  uint32_t pointer() const { return pointer_; }

private:
  friend class JsonPointerSet;

  struct Member {
    std::string canonical_name;
    uint32_t node;
  };
  struct Element {
    uint32_t index;
    uint32_t node;
  };

  uint32_t pointer_ = NoPointer;
  std::vector<Member> members_;    // Sorted by name.
  std::vector<Element> elements_;  // Sorted by index: those names that are also array indexes.
};

}  // namespace idempotency::fingerprint
