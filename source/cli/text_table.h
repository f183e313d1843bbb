#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace idempotency::cli {

// Characters of UTF-8 text, each of which is taken for one column of a terminal.
size_t shownWidth(std::string_view text);

// The text, or as much of it as fits into the columns.
std::string_view cutToWidth(std::string_view text, size_t columns);

// Rows under a header, each column as wide as its widest cell.
class TextTable {
public:
  explicit TextTable(std::vector<std::string> header);
  // REQUIRES: as many cells as the header has. Cells are printable: see printable().
  void add(std::vector<std::string> cells);
  size_t rows() const { return rows_.size() - 1; }
  // One line for each row, the header first. No blanks at the ends of lines.
  std::string text() const;

private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace idempotency::cli
