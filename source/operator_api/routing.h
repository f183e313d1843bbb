#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "source/operator_api/problem.h"
#include "source/operator_api/requests.h"
#include "source/protocol/record.h"

namespace idempotency::operator_api {

enum class Endpoint : uint8_t { Health, Summary, Records, Record, Change, Purge, Audit, Webhook };

// In statistics.
std::string_view endpointName(Endpoint endpoint);

// What a path means.
struct Target {
  Endpoint endpoint = Endpoint::Health;
  protocol::Identity identity;              // Record, Change.
  ChangeKind change = ChangeKind::Resolve;  // Change.
  std::string query;                        // What stands behind the question mark.
};

struct Routing {
  std::optional<Target> target;
  ApiProblem problem = ApiProblem::NotFound;  // Without a target.
};

// Finds what is below `prefix`, which has no slash at its end. `webhook_path` may be empty.
[[nodiscard]] Routing route(std::string_view path, std::string_view prefix,
                            std::string_view webhook_path);

// Whether the endpoint is asked with POST; all others with GET or HEAD.
bool takesPost(Endpoint endpoint);
// The value of Allow.
std::string_view allowedMethods(Endpoint endpoint);

}  // namespace idempotency::operator_api
