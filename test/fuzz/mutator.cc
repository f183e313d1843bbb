#include "test/fuzz/mutator.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <string_view>
#include <utility>

namespace idempotency {
namespace {

constexpr size_t MinMaxSize = 64;
constexpr size_t MaxEdits = 8;
constexpr size_t MaxEditSize = 16;

// Bytes that tend to matter: ends of ranges, and marks of the texts that we parse.
constexpr char InterestingBytes[] =
    "\x00\x1f\x20\x7e\x7f\x80\xc3\xed\xff\"\\/:;,=?&%~{}[]01e.-+\r\n";
constexpr std::string_view Interesting(InterestingBytes, sizeof(InterestingBytes) - 1);

enum class Edit : uint8_t { FlipBit, SetByte, SetInteresting, Insert, Erase, Repeat, Splice, Cut };
constexpr std::array Edits = {Edit::FlipBit, Edit::SetByte, Edit::SetInteresting, Edit::Insert,
                              Edit::Erase,   Edit::Repeat,  Edit::Splice,         Edit::Cut};

size_t longest(const std::vector<std::string>& corpus) {
  size_t size = 0;
  for (const std::string& text : corpus) {
    size = std::max(size, text.size());
  }
  return size;
}

}  // namespace

Mutator::Mutator(std::vector<std::string> corpus, uint64_t seed)
    : corpus_(std::move(corpus)),
      max_size_(std::max(2 * longest(corpus_), MinMaxSize)),
      random_(seed) {
  assert(!corpus_.empty());
}

std::string Mutator::next() {
  std::string text = corpus_[below(corpus_.size())];
  for (size_t edits = 1 + below(MaxEdits); edits > 0; --edits) {
    edit(text);
  }
  text.resize(std::min(text.size(), max_size_));
  return text;
}

// std::uniform_int_distribution differs between libraries; the small bias of % does no harm here.
size_t Mutator::below(size_t limit) {
  return static_cast<size_t>(random_() % limit);
}

void Mutator::edit(std::string& text) {
  // Each draw is a statement of its own: the order of a call's arguments is the compiler's choice.
  const Edit kind = Edits[below(Edits.size())];
  const size_t at = below(text.size() + 1);  // May be the end, which only some edits can use.
  const size_t count = 1 + below(MaxEditSize);
  const char any = static_cast<char>(below(256));
  const char interesting = Interesting[below(Interesting.size())];
  const std::string& other = corpus_[below(corpus_.size())];
  const size_t from = below(other.size() + 1);
  switch (kind) {
    case Edit::FlipBit:
      if (at < text.size()) {
        text[at] = static_cast<char>(text[at] ^ (1 << count % 8));
      }
      return;
    case Edit::SetByte:
      if (at < text.size()) {
        text[at] = any;
      }
      return;
    case Edit::SetInteresting:
      if (at < text.size()) {
        text[at] = interesting;
      }
      return;
    case Edit::Insert:
      text.insert(at, 1 + count % 4, interesting);
      return;
    case Edit::Erase:
      text.erase(at, count);
      return;
    case Edit::Repeat:
      text.insert(at, text.substr(at, count));
      return;
    case Edit::Splice:
      text.insert(at, other.substr(from, count));
      return;
    case Edit::Cut:
      text.resize(at);
      return;
  }
}

}  // namespace idempotency
