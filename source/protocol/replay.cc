#include "source/protocol/replay.h"

#include <algorithm>
#include <fmt/format.h>

#include "source/protocol/grpc.h"
#include "source/protocol/header_names.h"
#include "source/protocol/headers.h"
#include "source/protocol/http_date.h"
#include "source/protocol/status_set.h"

namespace idempotency {
namespace {

constexpr int MinFinalStatus = 200;

bool areSafe(const FieldList& fields) {
  return std::all_of(fields.begin(), fields.end(),
                     [](const auto& field) { return isSafeField(field.first, field.second); });
}

// What fieldsToStore leaves out never goes out either, whoever wrote the record.
FieldList withoutForbidden(const FieldList& fields) {
  FieldList kept;
  for (const auto& field : fields) {
    if (!isNeverStored(field.first)) {
      kept.push_back(field);
    }
  }
  return kept;
}

bool isGrpcResponse(const FieldList& headers) {
  return std::any_of(headers.begin(), headers.end(), [](const auto& field) {
    return field.first == "content-type" && isGrpc(field.second);
  });
}

}  // namespace

std::optional<ReplayMessage> buildReplay(const StoredResponse& response,
                                         const ReplayContext& context) {
  if (response.status < MinFinalStatus || response.status > MaxStatus ||
      !areSafe(response.headers) || !areSafe(response.trailers)) {
    return std::nullopt;
  }
  ReplayMessage message{.status = response.status, .headers = withoutForbidden(response.headers)};
  const bool bodiless =
      context.head || response.status == 204 || response.status == 205 || response.status == 304;
  if (!bodiless) {
    message.body = response.body;
    message.trailers = withoutForbidden(response.trailers);
    if (message.trailers.empty() && !isGrpcResponse(message.headers)) {
      message.headers.emplace_back("content-length", fmt::format("{}", message.body.size()));
    }
  }
  message.headers.emplace_back(ReplayedHeader, "true");
  if (context.expires_at.has_value()) {
    message.headers.emplace_back(ExpiresHeader, formatHttpDate(*context.expires_at));
  }
  exposeOwnHeaders(message.headers);
  return message;
}

}  // namespace idempotency
