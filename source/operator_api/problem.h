#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "source/store/operator_store.h"

namespace idempotency::operator_api {

// What the API answers instead of a result.
enum class ApiProblem : uint8_t {
  StoreUnavailable,      // 503. First, so that a zeroed value does not look like a result.
  Overloaded,            // 503: too many calls wait for the store.
  InvalidRequest,        // 400
  SignatureMissing,      // 401, of the webhook
  SignatureInvalid,      // 401
  SignatureLate,         // 401: the timestamp is outside of the window.
  ActorMissing,          // 403
  ReadOnly,              // 403
  CrossSite,             // 403: a page of another site sent the request.
  NotFound,              // 404: no such path.
  RecordNotFound,        // 404
  MethodNotAllowed,      // 405
  Stale,                 // 409: another attempt has claimed the record.
  Refused,               // 409: the record's state does not allow the change.
  Contradiction,         // 409: the webhook says something else than what is settled.
  TooLarge,              // 413
  UnsupportedMediaType,  // 415
};

struct ApiProblemText {
  ApiProblem problem;
  std::string_view code;  // For programs; never changes.
  int status;
  std::string_view title;
  std::string_view detail;
};
const ApiProblemText& problemText(ApiProblem problem);

// problem+json (RFC 9457). A detail replaces the fixed text; the record is added if there is one.
std::string encodeProblem(ApiProblem problem, std::string_view detail = {},
                          const std::optional<store::ListedRecord>& record = std::nullopt);

}  // namespace idempotency::operator_api
