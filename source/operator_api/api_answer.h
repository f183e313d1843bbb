#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "source/operator_api/problem.h"
#include "source/protocol/record.h"
#include "source/store/operator_store.h"

namespace idempotency::operator_api {

// An answer as it is sent, without content-length.
struct ApiAnswer {
  int status = 503;
  protocol::FieldList headers;
  std::string body;
  std::optional<ApiProblem> problem = std::nullopt;  // None: a result.
};

ApiAnswer jsonAnswer(std::string json);
ApiAnswer problemAnswer(ApiProblem problem, std::string_view detail = {},
                        const std::optional<store::ListedRecord>& record = std::nullopt);
// 204, and for a wrong method 405, with the methods that the path has.
ApiAnswer optionsAnswer(std::string_view allow);
ApiAnswer methodAnswer(std::string_view allow);

}  // namespace idempotency::operator_api
