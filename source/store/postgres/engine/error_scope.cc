#include "source/store/postgres/engine/error_scope.h"

#include <algorithm>
#include <array>

namespace idempotency::postgres {
namespace {

constexpr std::string_view ReadOnlyTransaction = "25006";
constexpr std::string_view UndefinedStatement = "26000";
constexpr std::string_view LockNotAvailable = "55P03";
constexpr std::string_view QueryCanceled = "57014";        // Also by statement_timeout.
constexpr std::string_view FeatureNotSupported = "0A000";  // Also: a cached plan's result changed.

// 08 connection, 53 resources, 57P shut-down and the like, 58 system, F0 config file, XX internal,
// 3F schema gone.
constexpr std::array<std::string_view, 7> ServerClasses = {"08", "53", "57P", "58",
                                                           "F0", "XX", "3F"};
// Table or column gone, no permission.
constexpr std::array<std::string_view, 5> ServerCodes = {"42P01", "42703", "42501", "42883",
                                                         ReadOnlyTransaction};

bool isServerCode(std::string_view sqlstate) {
  return std::any_of(ServerClasses.begin(), ServerClasses.end(),
                     [&](std::string_view prefix) { return sqlstate.starts_with(prefix); }) ||
         std::find(ServerCodes.begin(), ServerCodes.end(), sqlstate) != ServerCodes.end();
}

}  // namespace

ErrorScope scopeOf(std::string_view sqlstate) {
  if (sqlstate.empty() || isServerCode(sqlstate) || needsNewSession(sqlstate)) {
    return ErrorScope::Server;
  }
  return sqlstate.starts_with("40") ? ErrorScope::Transient : ErrorScope::Statement;
}

bool needsNewSession(std::string_view sqlstate) {
  return sqlstate.empty() || sqlstate == ReadOnlyTransaction || sqlstate == UndefinedStatement ||
         sqlstate == FeatureNotSupported || sqlstate.starts_with("57P") ||
         sqlstate.starts_with("08");
}

Evidence evidenceOf(std::string_view sqlstate) {
  if (scopeOf(sqlstate) == ErrorScope::Server) {
    return Evidence::Outage;
  }
  return isLockTimeout(sqlstate) || sqlstate == QueryCanceled ? Evidence::Timeout : Evidence::None;
}

bool isLockTimeout(std::string_view sqlstate) {
  return sqlstate == LockNotAvailable;
}

}  // namespace idempotency::postgres
