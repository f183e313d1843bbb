#include "source/protocol/problem.h"

#include <array>

namespace idempotency::protocol {
namespace {

using enum Problem;

// The texts and numbers of all answers, in the order of the enum (a test checks it). The titles of
// KeyMissing, KeyReused and InProgress are taken from the IETF draft. Where Stripe's API has the
// same case, its own type and code are used.
//
// A detail states only what is known: that this request was not forwarded, and whether an earlier
// one may have been processed. None suggests sending the operation again with another key.
constexpr std::array Texts = {
    ProblemText{
        .problem = StoreUnavailable,
        .code = "idempotency_store_unavailable",
        .status = 503,
        .title = "Idempotency store is unavailable",
        .detail = "The idempotency store is unavailable. "
                  "This request was not forwarded. "
                  "An earlier request with this key may have been processed. "
                  "Retry later with the same key.",
        .stripe_type = "api_error",
        .grpc_status = 14,
    },
    ProblemText{
        .problem = KeyMissing,
        .code = "idempotency_key_missing",
        .status = 400,
        .title = "Idempotency-Key is missing",
        .detail = "This operation requires an Idempotency-Key header. "
                  "Use a new key for each new request, and the same key for retries.",
        .stripe_type = "invalid_request_error",
        .grpc_status = 3,
    },
    ProblemText{
        .problem = KeyInvalid,
        .code = "idempotency_key_invalid",
        .status = 400,
        .title = "Idempotency-Key is invalid",
        .detail = "The Idempotency-Key header is not in the format that this operation requires.",
        .stripe_type = "invalid_request_error",
        .grpc_status = 3,
    },
    ProblemText{
        .problem = TenantMissing,
        .code = "idempotency_tenant_missing",
        .status = 403,
        .title = "Tenant could not be determined",
        .detail = "The request's tenant could not be determined.",
        .stripe_type = "invalid_request_error",
        .grpc_status = 7,
    },
    ProblemText{
        .problem = KeyReused,
        .code = "idempotency_key_reused",
        .status = 422,
        .title = "Idempotency-Key is already used",
        .detail = "This Idempotency-Key was already used with a different request. "
                  "Use a new key for a new request.",
        .stripe_type = "idempotency_error",
        .grpc_status = 6,
    },
    ProblemText{
        .problem = InProgress,
        .code = "idempotency_in_progress",
        .status = 409,
        .title = "A request is outstanding for this Idempotency-Key",
        .detail = "An earlier request with this Idempotency-Key is still being processed. "
                  "Retry later with the same key to get its result.",
        .stripe_type = "idempotency_error",
        .stripe_code = "idempotency_key_in_use",
        .grpc_status = 10,
    },
    ProblemText{
        .problem = Accepted,
        .code = "idempotency_in_progress",
        .status = 202,
        .title = "A request is outstanding for this Idempotency-Key",
        .detail = "An earlier request with this Idempotency-Key is still being processed. "
                  "Retry later with the same key to get its result.",
        .stripe_type = "idempotency_error",
        .stripe_code = "idempotency_key_in_use",
        .grpc_status = 10,
    },
    ProblemText{
        .problem = OutcomeUnknown,
        .code = "idempotency_outcome_unknown",
        .status = 409,
        .title = "Outcome of an earlier request is unknown",
        .detail = "An earlier request with this Idempotency-Key may have been processed, but its "
                  "result is unknown. "
                  "This request was not forwarded. "
                  "No request with this key will be forwarded until the result is known. "
                  "Find out whether the earlier request was processed before you repeat the "
                  "operation.",
        .stripe_type = "idempotency_error",
        .grpc_status = 9,
    },
    ProblemText{
        .problem = ResponseUnavailable,
        .code = "idempotency_response_unavailable",
        .status = 409,
        .title = "Response to the earlier request is not available",
        .detail = "A request with this Idempotency-Key was processed, but its response was not "
                  "stored. "
                  "This request was not forwarded.",
        .stripe_type = "idempotency_error",
        .grpc_status = 6,
    },
    ProblemText{
        .problem = KeyExpired,
        .code = "idempotency_key_expired",
        .status = 410,
        .title = "Idempotency-Key has expired",
        .detail = "This Idempotency-Key was used before, and its record has expired. "
                  "An earlier request with this key may have been processed. "
                  "This request was not forwarded. "
                  "Use a new key only for a new request.",
        .stripe_type = "idempotency_error",
        .grpc_status = 9,
    },
    ProblemText{
        .problem = UnknownExpired,
        .code = "idempotency_key_expired",
        .status = 410,
        .title = "Idempotency-Key has expired",
        .detail = "An earlier request with this Idempotency-Key may have been processed, but its "
                  "result is unknown, and the key has expired. "
                  "This request was not forwarded. "
                  "Find out whether the earlier request was processed before you repeat the "
                  "operation.",
        .stripe_type = "idempotency_error",
        .grpc_status = 9,
    },
    ProblemText{
        .problem = QuotaExceeded,
        .code = "idempotency_quota_exceeded",
        .status = 429,
        .title = "Too many requests with an Idempotency-Key",
        .detail = "The tenant has too many Idempotency-Keys or too many concurrent requests. "
                  "This request was not forwarded, but an earlier one with the same key may have "
                  "been. "
                  "Retry later with the same key.",
        .stripe_type = "invalid_request_error",
        .grpc_status = 8,
    },
    ProblemText{
        .problem = RequestTooLarge,
        .code = "idempotency_request_too_large",
        .status = 413,
        .title = "Request is too large",
        .detail = "The request body exceeds the limit for requests with an Idempotency-Key. "
                  "This request was not forwarded.",
        .stripe_type = "invalid_request_error",
        .grpc_status = 8,
    },
    ProblemText{
        .problem = RequestTooOld,
        .code = "idempotency_request_too_old",
        .status = 400,
        .title = "Request timestamp is not acceptable",
        .detail = "The request's timestamp header is missing, cannot be read, or is too far from "
                  "the current time. "
                  "This request was not forwarded.",
        .stripe_type = "invalid_request_error",
        .grpc_status = 3,
    },
    ProblemText{
        .problem = RecordUnreadable,
        .code = "idempotency_record_unreadable",
        .status = 503,
        .title = "Idempotency record cannot be read",
        .detail = "An earlier request with this Idempotency-Key may have been processed. "
                  "Its record is in a format that this server cannot read. "
                  "This request was not forwarded. "
                  "Retry later with the same key.",
        .stripe_type = "api_error",
        .grpc_status = 14,
    },
    ProblemText{
        .problem = ConfigInvalid,
        .code = "idempotency_config_invalid",
        .status = 500,
        .title = "Idempotency policy is invalid",
        .detail = "The idempotency policy of this operation is inconsistent. "
                  "This request was not forwarded.",
        .stripe_type = "api_error",
        .grpc_status = 13,
    },
    ProblemText{
        .problem = UpgradeRefused,
        .code = "idempotency_upgrade_refused",
        .status = 400,
        .title = "Upgrade with an Idempotency-Key is not supported",
        .detail = "The request contains an Upgrade header. "
                  "Upgraded connections cannot be replayed. "
                  "This request was not forwarded.",
        .stripe_type = "invalid_request_error",
        .grpc_status = 3,
    },
    ProblemText{
        .problem = Overloaded,
        .code = "idempotency_overloaded",
        .status = 503,
        .title = "Server is overloaded",
        .detail = "This request was refused because too many requests are in progress. "
                  "An earlier request with the same Idempotency-Key may have been processed. "
                  "Retry later with the same key.",
        .stripe_type = "api_error",
        .grpc_status = 14,
    },
    ProblemText{
        .problem = ExpectationFailed,
        .code = "idempotency_expectation_failed",
        .status = 417,
        .title = "Expect: 100-continue is not supported",
        .detail = "The request expects a 100 (Continue) response, which will not be sent. "
                  "Send it again with the same key, without the Expect header.",
        .stripe_type = "invalid_request_error",
        .grpc_status = 3,
    },
    ProblemText{
        .problem = DetachedUnavailable,
        .code = "idempotency_detached_unavailable",
        .status = 503,
        .title = "Request could not be started",
        .detail = "The server could not start this request. It was not forwarded. "
                  "Retry later with the same key.",
        .stripe_type = "api_error",
        .grpc_status = 14,
    },
    ProblemText{
        .problem = DetachedTimeout,
        .code = "idempotency_detached_timeout",
        .status = 504,
        .title = "Request did not finish in time",
        .detail = "This request was forwarded but did not finish in time. "
                  "It may have been processed. "
                  "No request with this key will be forwarded until the result is known. "
                  "Find out whether the request was processed before you repeat the operation.",
        .stripe_type = "api_error",
        .grpc_status = 4,
    },
    ProblemText{
        .problem = DetachedLost,
        .code = "idempotency_detached_lost",
        .status = 502,
        .title = "Response was lost",
        .detail = "This request was forwarded, but no complete response was received. "
                  "It may have been processed. "
                  "No request with this key will be forwarded until the result is known. "
                  "Find out whether the request was processed before you repeat the operation.",
        .stripe_type = "api_error",
        .grpc_status = 2,
    },
    ProblemText{
        .problem = Asynchronous,
        .code = "idempotency_in_progress",
        .status = 202,
        .title = "Request is being processed",
        .detail = "The request is being processed. "
                  "Get its result from the URL in the Location header, or send the request again "
                  "with the same key.",
        .stripe_type = "idempotency_error",
        .stripe_code = "idempotency_key_in_use",
        .grpc_status = 10,
    },
    ProblemText{
        .problem = RunNotFound,
        .code = "idempotency_run_not_found",
        .status = 404,
        .title = "Request not found",
        .detail = "There is no record of a request under this URL. "
                  "If there was one, it left no result, or its record has expired.",
        .stripe_type = "invalid_request_error",
        .grpc_status = 5,
    },
    ProblemText{
        .problem = RunNotCompleted,
        .code = "idempotency_run_not_completed",
        .status = 409,
        .title = "Request was not completed",
        .detail = "The request failed in a way that permits a retry. "
                  "Send it again with the same key.",
        .stripe_type = "idempotency_error",
        .grpc_status = 10,
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

}  // namespace idempotency::protocol
