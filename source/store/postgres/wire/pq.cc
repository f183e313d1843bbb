#include "source/store/postgres/wire/pq.h"

#include <fmt/format.h>

namespace idempotency::postgres {
namespace {

std::string oneLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    line.push_back(c == '\n' || c == '\t' ? ' ' : c);
  }
  while (!line.empty() && line.back() == ' ') {
    line.pop_back();
  }
  return line;
}

std::string_view field(const PGresult* result, int code) {
  const char* const text = PQresultErrorField(result, code);
  return text != nullptr ? text : "";
}

}  // namespace

std::string_view sqlState(const PGresult* result) {
  return field(result, PG_DIAG_SQLSTATE);
}

std::string describeError(const PGresult* result) {
  const std::string_view code = sqlState(result);
  if (code.empty()) {
    return oneLine(PQresultErrorMessage(result));
  }
  return fmt::format("{}: {}", code, oneLine(field(result, PG_DIAG_MESSAGE_PRIMARY)));
}

std::string describeError(const PGconn* connection) {
  std::string text = oneLine(PQerrorMessage(connection));
  return text.empty() ? "the connection was lost" : text;
}

}  // namespace idempotency::postgres
