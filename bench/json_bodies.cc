#include "bench/json_bodies.h"

#include <array>
#include <bit>
#include <fmt/format.h>
#include <string_view>

namespace idempotency {
namespace {

std::string item(size_t i) {
  constexpr std::array<std::string_view, 5> Names = {"Filter coffee, 500 g", "Teapot \\\"Kyoto\\\"",
                                                     "Caf\xc3\xa9 cup", "Sugar", "Milk jug, large"};
  constexpr std::array<std::string_view, 4> Colors = {"white", "blue", "sand", "black"};
  const auto cents = static_cast<unsigned>(i * 7919 % 9000 + 100);
  return fmt::format(
      R"({{"sku":"SKU-{:06}","name":"{}","quantity":{},"unit_price":{}.{:02},"tax_rate":0.19,)"
      R"("attributes":{{"color":"{}","weight_grams":{},"fragile":{}}},"gift":{}}})",
      i * 104729 % 1000000, Names[i % Names.size()], i % 4 + 1, cents / 100, cents % 100,
      Colors[i % Colors.size()], i * 37 % 2500, i % 3 == 0, i % 5 == 0 ? "null" : "false");
}

// A bound: no item is shorter.
constexpr size_t ShortestItem = 100;

constexpr std::string_view OrderStart =
    R"({"order_id":"ord_8f14e45fceea167a","customer":{"id":"cus_9a1158154dfa42ca",)"
    R"("email":"jane.doe@example.com"},"items":[)";
constexpr std::string_view OrderEnd = R"(],"currency":"EUR","total":1234.5})";

// For sizes that no order fits into.
constexpr std::string_view Payment =
    R"({"source":"tok_1a2b3c4d5e6f7a8b","amount":4999,"currency":"EUR","description":"Order 6735, 2 items",)"
    R"("metadata":{"order_id":"6735","channel":"web","vip":false},"capture":true,"fee":1.45})";

// Copies one string with its quotes and tells where it ends.
size_t copyString(std::string_view json, size_t i, std::string& out) {
  const size_t begin = i++;
  while (json[i] != '"') {
    i += json[i] == '\\' ? 2 : 1;
  }
  out += json.substr(begin, i + 1 - begin);
  return i;
}

std::string indented(std::string_view compact) {
  std::string out;
  size_t depth = 0;
  const auto newline = [&out, &depth] { out.append("\n").append(depth * 2, ' '); };
  for (size_t i = 0; i < compact.size(); ++i) {
    const char c = compact[i];
    if (c == '"') {
      i = copyString(compact, i, out);
    } else if (c == '{' || c == '[') {
      out += c;
      ++depth;
      newline();
    } else if (c == '}' || c == ']') {
      --depth;
      newline();
      out += c;
    } else {
      out += c;
      if (c == ',') {
        newline();
      } else if (c == ':') {
        out += ' ';
      }
    }
  }
  return out;
}

std::string order(size_t items) {
  std::string json(OrderStart);
  for (size_t i = 0; i < items; ++i) {
    json += i == 0 ? "" : ",";
    json += item(i);
  }
  return json + std::string(OrderEnd);
}

using Layout = std::string (*)(std::string_view);

// The order with the most items that fits.
std::string body(size_t size, Layout layout) {
  size_t fits = 0;
  for (size_t step = std::bit_floor(size); step > 0; step /= 2) {
    const size_t items = fits + step;
    if (items * ShortestItem <= size && layout(order(items)).size() <= size) {
      fits = items;
    }
  }
  return layout(fits == 0 ? std::string(Payment) : order(fits));
}

}  // namespace

std::string orderBody(size_t size) {
  return body(size, [](std::string_view json) { return std::string(json); });
}

std::string prettyOrderBody(size_t size) {
  return body(size, indented);
}

}  // namespace idempotency
