#include "source/cli/record_options.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <limits>
#include <string_view>
#include <utility>

#include <absl/status/status.h>

#include "source/cli/input_file.h"
#include "source/cli/printable.h"
#include "source/cli/store_options.h"

namespace idempotency::cli {
namespace {

constexpr size_t LongestKeyFile = 4096;
constexpr size_t KeyHashDigits = 16;
// More than one is too many.
constexpr uint32_t Enough = 2;

bool isKeyHash(std::string_view text) {
  return text.size() == KeyHashDigits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

absl::StatusOr<std::optional<std::string>> readKey(const Arguments& arguments) {
  const auto file = arguments.value("key-file");
  if (file.has_value() && arguments.has("key-stdin")) {
    return absl::InvalidArgumentError("--key-stdin cannot be combined with --key-file");
  }
  if (!file.has_value() && !arguments.has("key-stdin")) {
    return std::nullopt;
  }
  auto key = readInputFile(file.value_or("-"), LongestKeyFile);
  if (!key.ok()) {
    return key.status();
  }
  // A key is printable ASCII, so an end of line is not part of it.
  while (!key->empty() && (key->back() == '\n' || key->back() == '\r')) {
    key->pop_back();
  }
  if (key->empty()) {
    return absl::InvalidArgumentError(
        fmt::format("there is no key in {}", file.has_value() ? printable(*file) : "stdin"));
  }
  return std::optional(*std::move(key));
}

absl::Status noRecord(const store::RecordFilter& filter) {
  if (filter.key.has_value() && filter.key->starts_with('"')) {
    return absl::NotFoundError(
        "no record matches. If the quotes belong to the Idempotency-Key header, leave them out.");
  }
  if (filter.attempt.has_value()) {
    return absl::NotFoundError(
        "no record matches. If another request has claimed the record since, its attempt has "
        "changed: find it by its key or by its hash.");
  }
  return absl::NotFoundError("no record matches");
}

}  // namespace

absl::StatusOr<std::optional<protocol::Attempt>> readAttempt(const Arguments& arguments) {
  if (!arguments.has("attempt")) {
    return std::nullopt;
  }
  const auto attempt =
      arguments.number("attempt", 1, std::numeric_limits<protocol::Attempt>::max(), 0);
  if (!attempt.ok()) {
    return attempt.status();
  }
  return std::optional(static_cast<protocol::Attempt>(*attempt));
}

absl::StatusOr<store::RecordFilter> readRecordFilter(const Arguments& arguments) {
  if (const absl::Status status = checkStdin(arguments); !status.ok()) {
    return status;
  }
  store::RecordFilter filter;
  filter.tenant = arguments.value("tenant");
  filter.operation = arguments.value("operation");
  filter.key_hash = arguments.value("key-hash");
  if (filter.key_hash.has_value() && !isKeyHash(*filter.key_hash)) {
    return absl::InvalidArgumentError(fmt::format("--key-hash is {}; must be {} hexadecimal digits",
                                                  printable(*filter.key_hash), KeyHashDigits));
  }
  const auto attempt = readAttempt(arguments);
  if (!attempt.ok()) {
    return attempt.status();
  }
  filter.attempt = *attempt;
  auto key = readKey(arguments);
  if (!key.ok()) {
    return key.status();
  }
  filter.key = *std::move(key);
  return filter;
}

absl::Status checkStdin(const Arguments& arguments) {
  size_t readers = arguments.has("key-stdin") ? 1 : 0;
  for (const std::string_view file :
       {"password-file", "header-file", "key-file", "body-file", "after"}) {
    readers += arguments.value(file) == "-" ? 1 : 0;
  }
  return readers > 1 ? absl::InvalidArgumentError("only one option can read stdin")
                     : absl::OkStatus();
}

absl::StatusOr<store::ListedRecord> findOne(store::OperatorStore& store,
                                            const store::RecordFilter& filter) {
  auto page = fromStore(store.list(filter, std::nullopt, Enough));
  if (!page.ok()) {
    return page.status();
  }
  if (page->records.empty()) {
    return noRecord(filter);
  }
  if (page->records.size() > 1) {
    return absl::FailedPreconditionError(
        "more than one record matches: add --tenant and --operation, or --attempt");
  }
  return std::move(page->records.front());
}

}  // namespace idempotency::cli
