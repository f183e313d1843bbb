#include "test/fingerprint/hostile_bodies.h"

#include <fmt/format.h>
#include <functional>
#include <string_view>

namespace idempotency::fingerprint {
namespace {

// Head, then as many numbered pieces with commas between as fit, then tail.
std::string list(std::string_view head, const std::function<std::string(size_t)>& piece,
                 std::string_view tail, size_t size) {
  std::string text(head);
  for (size_t i = 0;; ++i) {
    const std::string next = (i == 0 ? "" : ",") + piece(i);
    if (text.size() + next.size() + tail.size() > size) {
      return text + std::string(tail);
    }
    text += next;
  }
}

std::string arrayOf(const std::string& element, size_t size) {
  return list(
      "[", [&element](size_t) { return element; }, "]", size);
}

std::string objectOf(const std::function<std::string(size_t)>& name, size_t size) {
  return list(
      "{", [&name](size_t i) { return '"' + name(i) + "\":1"; }, "}", size);
}

std::string repeated(std::string_view piece, size_t size) {
  std::string text;
  while (text.size() + piece.size() <= size) {
    text += piece;
  }
  return text;
}

std::string stringOf(std::string_view piece, size_t size) {
  return '"' + repeated(piece, size - 2) + '"';
}

std::string nested(std::string_view head, const std::string& core, std::string_view tail,
                   int depth) {
  std::string text = core;
  for (int i = 0; i < depth; ++i) {
    text = std::string(head) + text + std::string(tail);
  }
  return text;
}

}  // namespace

std::vector<HostileBody> hostileBodies(size_t size) {
  constexpr size_t Count = 100'000'000;
  const auto falling = [](size_t i) { return fmt::format("{:08}", Count - i); };
  const auto rising = [](size_t i) { return fmt::format("{:08}", i); };
  const std::string prefix(size / 64, 'p');
  return {
      {"OpenArrays", repeated("[", size)},
      {"OpenObjects", repeated("{\"\":", size)},
      {"EmptyArrays", arrayOf("[]", size)},
      {"Ones", arrayOf("1", size)},
      {"GrowingNumbers", arrayOf("1e20", size)},
      {"GrowingSmallNumbers", arrayOf("1e-6", size)},
      {"ShrinkingNumbers", arrayOf("1.0", size)},
      {"LongDigits", "0." + repeated("0123456789", size - 2)},
      {"LongZeros", "1" + repeated("0", size - 20) + "e-" + std::to_string(size - 21)},
      {"SeventeenDigits", arrayOf("9007199254740992", size)},
      {"Spaces", list(
                     "[", [](size_t) { return " 1 "; }, " ]", size)},
      {"SortedMembers", objectOf(rising, size)},
      {"ReversedMembers", objectOf(falling, size)},
      {"ShuffledMembers",
       objectOf([](size_t i) { return fmt::format("{:08}", i * 61803399 % 99999989); }, size)},
      {"EscapedNames", objectOf([&](size_t i) { return "\\n" + falling(i); }, size)},
      {"RewrittenNames", objectOf([&](size_t i) { return "\\u0041" + falling(i); }, size)},
      {"NamesWithLongPrefix", objectOf([&](size_t i) { return prefix + falling(i); }, size)},
      {"EscapedNamesWithLongPrefix",
       objectOf([&](size_t i) { return prefix + "\\n" + falling(i); }, size)},
      {"NamesBeyondAscii",
       objectOf([&](size_t i) { return "\xf0\x9f\x98\x80" + falling(i); }, size)},
      {"DuplicateAtTheEnd",
       list(
           "{\"x\":1,", [&](size_t i) { return '"' + falling(i) + "\":1"; }, ",\"x\":1}", size)},
      {"OnlyDuplicates", objectOf([](size_t) { return "a"; }, size)},
      {"SmallUnsortedObjects", arrayOf(R"({"b":1,"a":1})", size)},
      {"SmallestIndexedObjects", arrayOf(R"({"\n":1,"":1})", size)},
      {"SixteenMembers", arrayOf(objectOf(falling, 200), size)},
      {"SeventeenMembers", arrayOf(objectOf(falling, 18 * 12), size)},
      {"NestedSmallObjects", arrayOf(nested("{\"b\":", "1", ",\"a\":1}", 38), size)},
      {"NestedUnsortedAroundALongString",
       nested("{\"b\":", stringOf("x", size - 120 * 12), ",\"a\":1}", 120)},
      {"NestedIndexedObjects", arrayOf(nested("{\"\\n\":", "1", ",\"\":1}", 120), size)},
      {"Escapes", stringOf("\\n", size)},
      {"RewrittenEscapes", stringOf("\\u0041", size)},
      {"ControlEscapes", stringOf("\\u001F", size)},
      {"SurrogatePairs", stringOf("\\ud83d\\ude00", size)},
      {"Slashes", stringOf("x\\/", size)},
      {"ThreeByteText", stringOf("\xe2\x82\xac", size)},
      {"ManyStrings", arrayOf("\"\"", size)},
      {"NeverEndingString", '"' + repeated("x", size - 1)},
      {"UnsortedAtTheTopOfALongArray", "{\"b\":" + arrayOf("1", size - 16) + ",\"a\":1}"},
  };
}

}  // namespace idempotency::fingerprint
