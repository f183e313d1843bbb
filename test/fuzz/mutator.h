#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace idempotency {

// Makes new inputs out of a corpus. The same corpus and seed give the same inputs on every machine.
class Mutator {
public:
  // REQUIRES: corpus is not empty.
  Mutator(std::vector<std::string> corpus, uint64_t seed);

  // One input of the corpus with one to eight edits. At most twice as long as the longest of the
  // corpus, and at least 64 bytes are always allowed.
  std::string next();

private:
  size_t below(size_t limit);
  void edit(std::string& text);

  std::vector<std::string> corpus_;
  size_t max_size_;
  std::mt19937_64 random_;
};

}  // namespace idempotency
