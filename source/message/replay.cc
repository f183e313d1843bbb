#include "source/message/replay.h"

#include <algorithm>
#include <fmt/format.h>

#include "source/http/grpc.h"
#include "source/http/header_names.h"
#include "source/http/http_date.h"
#include "source/http/status_set.h"
#include "source/message/headers.h"

namespace idempotency::message {
namespace {

constexpr int MinFinalStatus = 200;

bool areSafe(const protocol::FieldList& fields) {
  return std::all_of(fields.begin(), fields.end(),
                     [](const auto& field) { return isSafeField(field.first, field.second); });
}

// What fieldsToStore omits is never sent either, no matter what wrote the record.
protocol::FieldList withoutForbidden(const protocol::FieldList& fields) {
  protocol::FieldList kept;
  for (const auto& field : fields) {
    if (!isNeverStored(field.first)) {
      kept.push_back(field);
    }
  }
  return kept;
}

bool isGrpcResponse(const protocol::FieldList& headers) {
  return std::any_of(headers.begin(), headers.end(), [](const auto& field) {
    return field.first == "content-type" && http::isGrpc(field.second);
  });
}

}  // namespace

std::optional<ReplayMessage> buildReplay(const protocol::StoredResponse& response,
                                         const ReplayContext& context) {
  if (response.status < MinFinalStatus || response.status > http::MaxStatus ||
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
  if (context.no_store) {
    std::erase_if(message.headers,
                  [](const auto& field) { return field.first == "cache-control"; });
    message.headers.emplace_back("cache-control", "no-store");
  }
  if (context.replayed) {
    message.headers.emplace_back(http::ReplayedHeader, "true");
  }
  if (context.expires_at.has_value()) {
    message.headers.emplace_back(http::ExpiresHeader, http::formatHttpDate(*context.expires_at));
  }
  if (usesCors(message.headers)) {
    exposeOwnHeaders(message.headers);
  }
  return message;
}

}  // namespace idempotency::message
