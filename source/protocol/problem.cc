#include "source/protocol/problem.h"

#include <array>

namespace idempotency {
namespace {

using enum Problem;

// Every text and number of every answer. Titles of KeyMissing, KeyReused and InProgress are the
// IETF draft's. Stripe's own words are used where that API has the case. The order is the enum's; a
// test checks it.
constexpr std::array Texts = {
    ProblemText{
        .problem = StoreUnavailable,
        .code = "idempotency_store_unavailable",
        .status = 503,
        .title = "Idempotency store is unavailable",
        .detail =
            "The request was not processed, because its Idempotency-Key could not be recorded. "
            "Send it again later with the same key.",
        .stripe_type = "api_error",
        .grpc_status = 14,
    },
    ProblemText{
        .problem = KeyMissing,
        .code = "idempotency_key_missing",
        .status = 400,
        .title = "Idempotency-Key is missing",
        .detail =
            "This operation needs an Idempotency-Key header. Use a new key for each new request "
            "and the same key to send a request again.",
        .stripe_type = "invalid_request_error",
        .grpc_status = 3,
    },
    ProblemText{
        .problem = KeyInvalid,
        .code = "idempotency_key_invalid",
        .status = 400,
        .title = "Idempotency-Key is invalid",
        .detail = "The Idempotency-Key header does not have the form that this operation accepts.",
        .stripe_type = "invalid_request_error",
        .grpc_status = 3,
    },
    ProblemText{
        .problem = TenantMissing,
        .code = "idempotency_tenant_missing",
        .status = 403,
        .title = "Sender of the request is not known",
        .detail = "Who sent the request cannot be told, so its Idempotency-Key cannot be used.",
        .stripe_type = "invalid_request_error",
        .grpc_status = 7,
    },
    ProblemText{
        .problem = KeyReused,
        .code = "idempotency_key_reused",
        .status = 422,
        .title = "Idempotency-Key is already used",
        .detail =
            "The Idempotency-Key was used before with a different request. Use a new key for a new "
            "request.",
        .stripe_type = "idempotency_error",
        .grpc_status = 6,
    },
    ProblemText{
        .problem = InProgress,
        .code = "idempotency_in_progress",
        .status = 409,
        .title = "A request is outstanding for this Idempotency-Key",
        .detail = "An earlier request with this Idempotency-Key is still being processed. Send the "
                  "request "
                  "again later with the same key to get its result.",
        .stripe_type = "idempotency_error",
        .stripe_code = "idempotency_key_in_use",
        .grpc_status = 10,
    },
    ProblemText{
        .problem = Accepted,
        .code = "idempotency_in_progress",
        .status = 202,
        .title = "A request is outstanding for this Idempotency-Key",
        .detail = "An earlier request with this Idempotency-Key is still being processed. Send the "
                  "request "
                  "again later with the same key to get its result.",
        .stripe_type = "idempotency_error",
        .stripe_code = "idempotency_key_in_use",
        .grpc_status = 10,
    },
    ProblemText{
        .problem = OutcomeUnknown,
        .code = "idempotency_outcome_unknown",
        .status = 409,
        .title = "The outcome of an earlier request is not known",
        .detail = "An earlier request with this Idempotency-Key may have been processed, and its "
                  "result is "
                  "not known. It is not processed again before that is settled. Send the request "
                  "again later "
                  "with the same key; with a new key it would be processed as a new request.",
        .stripe_type = "idempotency_error",
        .grpc_status = 9,
    },
    ProblemText{
        .problem = ResponseUnavailable,
        .code = "idempotency_response_unavailable",
        .status = 409,
        .title = "The response to an earlier request is not available",
        .detail = "A request with this Idempotency-Key has been processed, but its response was "
                  "not kept. "
                  "It is not processed again.",
        .stripe_type = "idempotency_error",
        .grpc_status = 6,
    },
    ProblemText{
        .problem = KeyExpired,
        .code = "idempotency_key_expired",
        .status = 410,
        .title = "Idempotency-Key has expired",
        .detail = "The Idempotency-Key was used before and its result is no longer kept. Use a new "
                  "key for a "
                  "new request.",
        .stripe_type = "idempotency_error",
        .grpc_status = 9,
    },
    ProblemText{
        .problem = QuotaExceeded,
        .code = "idempotency_quota_exceeded",
        .status = 429,
        .title = "Too many Idempotency-Keys",
        .detail = "The sender uses more Idempotency-Keys than it may. The request was not "
                  "processed. Send it "
                  "again later with the same key.",
        .stripe_type = "invalid_request_error",
        .grpc_status = 8,
    },
    ProblemText{
        .problem = RequestTooLarge,
        .code = "idempotency_request_too_large",
        .status = 413,
        .title = "Request is too large",
        .detail =
            "The request's body is larger than this operation accepts with an Idempotency-Key. The "
            "request was not processed.",
        .stripe_type = "invalid_request_error",
        .grpc_status = 8,
    },
    ProblemText{
        .problem = RequestTooOld,
        .code = "idempotency_request_too_old",
        .status = 400,
        .title = "Time of the request is not acceptable",
        .detail = "The header with the time of the request is missing, cannot be read, or is too "
                  "far from "
                  "the present. The request was not processed.",
        .stripe_type = "invalid_request_error",
        .grpc_status = 3,
    },
    ProblemText{
        .problem = RecordUnreadable,
        .code = "idempotency_record_unreadable",
        .status = 503,
        .title = "Idempotency record cannot be read",
        .detail = "An earlier request with this Idempotency-Key is on record in a form that cannot "
                  "be read "
                  "here. The request was not processed. Send it again later with the same key.",
        .stripe_type = "api_error",
        .grpc_status = 14,
    },
    ProblemText{
        .problem = ConfigInvalid,
        .code = "idempotency_config_invalid",
        .status = 500,
        .title = "Idempotency policy is invalid",
        .detail =
            "The idempotency policy of this operation contradicts itself. The request was not "
            "processed.",
        .stripe_type = "api_error",
        .grpc_status = 13,
    },
    ProblemText{
        .problem = UpgradeRefused,
        .code = "idempotency_upgrade_refused",
        .status = 400,
        .title = "Upgrade with an Idempotency-Key is not supported",
        .detail = "The request asks for another protocol on its connection, whose answer could not "
                  "be replayed. The request was not processed.",
        .stripe_type = "invalid_request_error",
        .grpc_status = 3,
    },
};

}  // namespace

const ProblemText& problemText(Problem problem) {
  const auto index = static_cast<size_t>(problem);
  return index < Texts.size() ? Texts[index] : Texts[0];
}

std::string_view problemCode(Problem problem) {
  return problemText(problem).code;
}

std::span<const ProblemText> problemTexts() {
  return Texts;
}

}  // namespace idempotency
