#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace idempotency::fuzz {

// Whether FILTER_FUZZ_STORY is in the environment: then all that happens goes to stderr, in a form
// in which it can be written into the corpus, but for what stands in brackets.
inline bool tellsStory() {
  static const bool tells = std::getenv("FILTER_FUZZ_STORY") != nullptr;
  return tells;
}

inline void tell(const std::string& text) {
  if (tellsStory()) {
    std::fputs(text.c_str(), stderr);
  }
}

}  // namespace idempotency::fuzz
