#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

namespace idempotency::fingerprint {

// A body made to be hard for a reader: much to index, to compare, to move, to expand or to nest.
struct HostileBody {
  std::string name;
  std::string text;
};

inline void PrintTo(const HostileBody& body, std::ostream* out) {
  *out << body.name;
}

// One of each kind, up to `size` bytes long and not much shorter.
std::vector<HostileBody> hostileBodies(size_t size);

}  // namespace idempotency::fingerprint
