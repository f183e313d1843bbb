#pragma once

#include <optional>
#include <string_view>

#include "source/operator_api/api_answer.h"

namespace idempotency::operator_api {

// The files of the web page: PREFIX/ is the page itself, and PREFIX leads to it. The page asks the
// API for everything else, so nothing in it is secret. None: the path belongs to something else.
[[nodiscard]] std::optional<ApiAnswer> pageAnswer(std::string_view method, std::string_view path,
                                                  std::string_view prefix);

}  // namespace idempotency::operator_api
