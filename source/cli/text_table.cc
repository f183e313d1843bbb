#include "source/cli/text_table.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace idempotency::cli {
namespace {

constexpr std::string_view Gap = "  ";

bool startsCharacter(char byte) {
  return (static_cast<uint8_t>(byte) & 0xc0) != 0x80;
}

}  // namespace

size_t shownWidth(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), startsCharacter));
}

std::string_view cutToWidth(std::string_view text, size_t columns) {
  size_t width = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (startsCharacter(text[at]) && ++width > columns) {
      return text.substr(0, at);
    }
  }
  return text;
}

TextTable::TextTable(std::vector<std::string> header) {
  rows_.push_back(std::move(header));
}

void TextTable::add(std::vector<std::string> cells) {
  rows_.push_back(std::move(cells));
}

std::string TextTable::text() const {
  std::vector<size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (size_t column = 0; column < widths.size(); ++column) {
      widths[column] = std::max(widths[column], shownWidth(row[column]));
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t column = 0; column < widths.size(); ++column) {
      line += column == 0 ? "" : Gap;
      line += row[column];
      line.append(widths[column] - shownWidth(row[column]), ' ');
    }
    line.resize(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace idempotency::cli
