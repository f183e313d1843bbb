#pragma once

#include <cstdint>
#include <string>

#include "source/operator_api/problem.h"
#include "source/operator_client/http_client.h"

// What an answer means that is not the result that was asked for.
namespace idempotency::operator_client {

inline constexpr int OkStatus = 200;

// 200 with JSON. Anything else is a refusal, a failure, or the answer of another server.
bool isResult(const HttpAnswer& answer);

// Whether the API itself says what is wrong: any problem, or this one.
bool isProblem(const HttpAnswer& answer);
bool isProblem(const HttpAnswer& answer, operator_api::ApiProblem kind);

// In words for an operator: the status, and what the server says about it.
std::string explain(const HttpAnswer& answer);

// What became of a change that was answered like this.
enum class Effect : uint8_t {
  Perhaps,  // It may have been made.
  None,     // It was refused.
  Told,     // The explanation says it.
};
Effect effectOf(const HttpAnswer& answer);

}  // namespace idempotency::operator_client
