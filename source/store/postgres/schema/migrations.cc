#include "source/store/postgres/schema/migrations.h"

#include <charconv>
#include <fmt/format.h>
#include <string>

#include "absl/status/status.h"

namespace idempotency::postgres {
namespace {

constexpr std::string_view Header = "-- compatible-with: ";

// The number at the start of the text; 0 if there is none.
int leadingNumber(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

absl::StatusOr<std::vector<Migration>> readMigrations(std::span<const EmbeddedText> files) {
  std::vector<Migration> migrations;
  for (const EmbeddedText& file : files) {
    const int wanted = static_cast<int>(migrations.size()) + 1;
    if (leadingNumber(file.name) != wanted) {
      return absl::InternalError(
          fmt::format("expected migration {1}, found {0}", file.name, wanted));
    }
    const int compatible_with =
        file.text.starts_with(Header) ? leadingNumber(file.text.substr(Header.size())) : 0;
    if (compatible_with < 1 || compatible_with > wanted) {
      return absl::InternalError(
          fmt::format("{} must begin with \"{}N\", N from 1 to {}", file.name, Header, wanted));
    }
    migrations.push_back({wanted, file.name, compatible_with, file.text});
  }
  return migrations;
}

}  // namespace idempotency::postgres
