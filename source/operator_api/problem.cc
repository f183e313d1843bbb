#include "source/operator_api/problem.h"

#include <array>
#include <cstddef>

#include "source/operator_api/encode.h"
#include "source/operator_api/json_writer.h"

namespace idempotency::operator_api {
namespace {

// In the enum's order.
constexpr std::array<ApiProblemText, 17> Texts = {{
    {ApiProblem::StoreUnavailable, "store_unavailable", 503, "Store unavailable",
     "The store did not answer. A change may have been made: look at the record before you repeat "
     "it."},
    {ApiProblem::Overloaded, "overloaded", 503, "Too many requests wait",
     "Too many requests wait for the store. Nothing was changed. Try again."},
    {ApiProblem::InvalidRequest, "invalid_request", 400, "Invalid request",
     "The request cannot be read."},
    {ApiProblem::SignatureMissing, "signature_missing", 401, "Signature missing",
     "The request has no signature, or one that cannot be read."},
    {ApiProblem::SignatureInvalid, "signature_invalid", 401, "Signature invalid",
     "No key of the ring gives this signature."},
    {ApiProblem::SignatureLate, "signature_late", 401, "Timestamp too old or in the future",
     "The signed timestamp is outside of the accepted window."},
    {ApiProblem::ActorMissing, "actor_missing", 403, "Actor missing",
     "A change needs the name of the person or service that makes it, and the request has none."},
    {ApiProblem::ReadOnly, "read_only", 403, "Read-only", "This API is configured as read-only."},
    {ApiProblem::CrossSite, "cross_site", 403, "Cross-site request",
     "A page of another site sent this request."},
    {ApiProblem::NotFound, "not_found", 404, "Not found", "There is nothing at this path."},
    {ApiProblem::RecordNotFound, "record_not_found", 404, "Record not found",
     "The store has no such record."},
    {ApiProblem::MethodNotAllowed, "method_not_allowed", 405, "Method not allowed",
     "The Allow header lists the methods of this path."},
    {ApiProblem::Stale, "stale", 409, "The record has changed",
     "Another attempt has claimed the record since you looked at it. Nothing was changed."},
    {ApiProblem::Refused, "refused", 409, "Not allowed in this state",
     "The state of the record does not allow this change. Nothing was changed."},
    {ApiProblem::Contradiction, "contradiction", 409, "Contradicts the settled outcome",
     "The record is already settled with another outcome. Nothing was changed."},
    {ApiProblem::TooLarge, "too_large", 413, "Request too large",
     "The body is larger than this API accepts."},
    {ApiProblem::UnsupportedMediaType, "unsupported_media_type", 415, "Unsupported media type",
     "The body must be application/json."},
}};

consteval bool isInOrder() {
  for (size_t i = 0; i < Texts.size(); ++i) {
    if (static_cast<size_t>(Texts[i].problem) != i) {
      return false;
    }
  }
  return true;
}
static_assert(isInOrder());

}  // namespace

const ApiProblemText& problemText(ApiProblem problem) {
  return Texts[static_cast<size_t>(problem)];
}

std::string encodeProblem(ApiProblem problem, std::string_view detail,
                          const std::optional<store::ListedRecord>& record) {
  const ApiProblemText& fixed = problemText(problem);
  JsonWriter json;
  json.beginObject();
  json.text("type", "about:blank");
  json.text("title", fixed.title);
  json.number("status", fixed.status);
  json.text("code", fixed.code);
  json.text("detail", detail.empty() ? fixed.detail : detail);
  if (record.has_value()) {
    writeRecord("record", *record, json);
  }
  json.endObject();
  return json.json();
}

}  // namespace idempotency::operator_api
