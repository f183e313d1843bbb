#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace idempotency::fingerprint {

// Makes JSON texts of all shapes: any nesting, names that clash or nearly do, numbers and strings
// in all spellings, space everywhere.
class RandomJson {
public:
  explicit RandomJson(uint32_t seed) : random_(seed) {}

  // A text that is JSON, but may have duplicate names and inexact numbers.
  std::string text();

  // The text with a few bytes changed, dropped, doubled or swapped.
  std::string mutated(std::string text);

private:
  size_t below(size_t limit) { return random_() % limit; }
  bool oneIn(size_t count) { return below(count) == 0; }

  void space();
  void value(int depth);
  void object(int depth);
  void array(int depth);
  void string(size_t longest);
  void character();
  void number();
  void digits(size_t longest);

  std::mt19937 random_;
  bool spaced_ = false;
  std::string out_;
};

}  // namespace idempotency::fingerprint
