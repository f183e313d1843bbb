#include "source/operator_api/api.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "source/http/header_names.h"
#include "source/message/headers.h"
#include "source/operator_api/page.h"
#include "source/operator_api/requests.h"
#include "source/operator_api/settle_event.h"
#include "source/operator_api/text.h"

namespace idempotency::operator_api {
namespace {

constexpr uint32_t TimelineEntries = 100;
constexpr std::string_view AllOperations = "*";
// Beside those of endpointName().
constexpr std::string_view PageEndpoint = "page";
constexpr std::string_view OtherEndpoint = "other";

ApiAnswer invalid(const absl::Status& status) {
  return problemAnswer(ApiProblem::InvalidRequest,
                       {status.message().data(), status.message().size()});
}

bool isJson(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  type = type.substr(0, type.find_last_not_of(' ') + 1);
  return http::toLower(type) == "application/json";
}

// A browser says where the page comes from that sends a request. What is no browser says nothing.
bool isFromElsewhere(std::string_view sec_fetch_site) {
  return !sec_fetch_site.empty() && sec_fetch_site != "same-origin" && sec_fetch_site != "none";
}

absl::StatusOr<ApiAnswer> health(store::OperatorStore& store) {
  const auto page = store.audit({}, std::nullopt, 1);
  if (!page.ok()) {
    return page.status();
  }
  return jsonAnswer(R"({"store":"ok"})");
}

absl::StatusOr<ApiAnswer> show(const protocol::Identity& identity, ShowResponse show_response,
                               store::OperatorStore& store) {
  const auto record = store.find(identity);
  if (!record.ok()) {
    return record.status();
  }
  if (!record->has_value()) {
    return problemAnswer(ApiProblem::RecordNotFound);
  }
  const store::AuditFilter filter{identity.tenant, identity.operation, identity.key, std::nullopt};
  const auto timeline = store.audit(filter, std::nullopt, TimelineEntries);
  if (!timeline.ok()) {
    return timeline.status();
  }
  return jsonAnswer(encodeRecord(**record, *timeline, show_response));
}

absl::StatusOr<ApiAnswer> apply(const store::OperatorChange& change, store::OperatorStore& store) {
  const auto result = store.change(change);
  if (!result.ok()) {
    return result.status();
  }
  std::optional<store::ListedRecord> found;
  if (result->found.has_value()) {
    found = {change.seen.identity, *result->found};
  }
  switch (result->outcome) {
    case store::ChangeOutcome::Done:
      return jsonAnswer(encodeChange(change, *result));
    case store::ChangeOutcome::Absent:
      return problemAnswer(ApiProblem::RecordNotFound);
    case store::ChangeOutcome::Stale:
      return problemAnswer(ApiProblem::Stale, {}, found);
    case store::ChangeOutcome::Refused:
      return problemAnswer(ApiProblem::Refused, {}, found);
  }
  return problemAnswer(ApiProblem::Refused, {}, found);
}

StoreCall listCall(RecordQuery query) {
  return [query = std::move(query)](store::OperatorStore& store) -> absl::StatusOr<ApiAnswer> {
    const auto page = store.list(query.filter, query.after, query.limit);
    if (!page.ok()) {
      return page.status();
    }
    return jsonAnswer(encodeRecords(*page));
  };
}

StoreCall auditCall(AuditQuery query) {
  return [query = std::move(query)](store::OperatorStore& store) -> absl::StatusOr<ApiAnswer> {
    const auto page = store.audit(query.filter, query.before, query.limit);
    if (!page.ok()) {
      return page.status();
    }
    return jsonAnswer(encodeAudit(*page));
  };
}

StoreCall summaryCall(ServerFacts facts) {
  return [facts](store::OperatorStore& store) -> absl::StatusOr<ApiAnswer> {
    const auto summary = store.summary();
    if (!summary.ok()) {
      return summary.status();
    }
    return jsonAnswer(encodeSummary(*summary, facts));
  };
}

std::chrono::seconds secondsNow() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now())
      .time_since_epoch();
}

ApiAnswer refusal(SignatureVerdict verdict) {
  switch (verdict) {
    case SignatureVerdict::Missing:
      return problemAnswer(ApiProblem::SignatureMissing);
    case SignatureVerdict::Late:
      return problemAnswer(ApiProblem::SignatureLate);
    case SignatureVerdict::Invalid:
    case SignatureVerdict::Valid:
      break;
  }
  return problemAnswer(ApiProblem::SignatureInvalid);
}

}  // namespace

HeadOutcome Api::onHead(const RequestHead& head) const {
  const std::string_view webhook_path =
      settings_.webhook.has_value() ? std::string_view(settings_.webhook->path) : "";
  Routing routing = route(head.path, settings_.prefix, webhook_path);
  if (!routing.target.has_value()) {
    auto page = pageAnswer(head.method, head.path, settings_.prefix);
    return page.has_value() ? HeadOutcome{PageEndpoint, *std::move(page)}
                            : HeadOutcome{OtherEndpoint, problemAnswer(routing.problem)};
  }
  const Endpoint endpoint = routing.target->endpoint;
  auto answer = decideOnHead(endpoint, head);
  if (answer.has_value()) {
    return {endpointName(endpoint), *std::move(answer)};
  }
  return {endpointName(endpoint), *std::move(routing.target)};
}

std::optional<ApiAnswer> Api::decideOnHead(Endpoint endpoint, const RequestHead& head) const {
  if (head.method == "OPTIONS") {
    return optionsAnswer(allowedMethods(endpoint));
  }
  const bool fits =
      takesPost(endpoint) ? head.method == "POST" : head.method == "GET" || head.method == "HEAD";
  if (!fits) {
    return methodAnswer(allowedMethods(endpoint));
  }
  const bool is_change = endpoint == Endpoint::Change || endpoint == Endpoint::Purge;
  auto refused = is_change ? checkChange(head) : std::nullopt;
  if (!refused.has_value() && takesPost(endpoint)) {
    refused = checkBody(head);
  }
  return refused;
}

std::optional<ApiAnswer> Api::checkChange(const RequestHead& head) const {
  if (isFromElsewhere(head.sec_fetch_site)) {
    return problemAnswer(ApiProblem::CrossSite);
  }
  if (settings_.read_only) {
    return problemAnswer(ApiProblem::ReadOnly);
  }
  if (!head.actor.has_value()) {
    return problemAnswer(ApiProblem::ActorMissing);
  }
  return std::nullopt;
}

std::optional<ApiAnswer> Api::checkBody(const RequestHead& head) const {
  if (!isJson(head.content_type)) {
    return problemAnswer(ApiProblem::UnsupportedMediaType);
  }
  if (message::announcesMoreThan(head.content_length, settings_.max_request_bytes)) {
    return problemAnswer(ApiProblem::TooLarge);
  }
  return std::nullopt;
}

std::variant<ApiAnswer, StoreCall> Api::onRequest(const Target& target, const RequestHead& head,
                                                  std::string_view body) const {
  switch (target.endpoint) {
    case Endpoint::Change:
      return onChange(target, head, body);
    case Endpoint::Purge:
      return onPurge(head, body);
    case Endpoint::Webhook:
      return onWebhook(head, body);
    case Endpoint::Health:
    case Endpoint::Summary:
    case Endpoint::Records:
    case Endpoint::Record:
    case Endpoint::Audit:
      break;
  }
  return onGet(target);
}

std::variant<ApiAnswer, StoreCall> Api::onGet(const Target& target) const {
  switch (target.endpoint) {
    case Endpoint::Health:
      return StoreCall(health);
    case Endpoint::Summary:
      return summaryCall({.read_only = settings_.read_only});
    case Endpoint::Record:
      return StoreCall(
          [identity = target.identity, show_response = showResponse(target.identity.operation)](
              store::OperatorStore& store) { return show(identity, show_response, store); });
    case Endpoint::Records: {
      auto query = parseRecordQuery(target.query);
      if (!query.ok()) {
        return invalid(query.status());
      }
      return listCall(*std::move(query));
    }
    case Endpoint::Audit: {
      auto query = parseAuditQuery(target.query);
      if (!query.ok()) {
        return invalid(query.status());
      }
      return auditCall(*std::move(query));
    }
    case Endpoint::Change:
    case Endpoint::Purge:
    case Endpoint::Webhook:
      break;
  }
  return problemAnswer(ApiProblem::NotFound);
}

std::variant<ApiAnswer, StoreCall> Api::onChange(const Target& target, const RequestHead& head,
                                                 std::string_view body) const {
  auto change = parseChange(target.change, body);
  if (!change.ok()) {
    return invalid(change.status());
  }
  change->seen.identity = target.identity;
  change->actor = shownText(head.actor.value_or(""));
  return StoreCall(
      [change = *std::move(change)](store::OperatorStore& store) { return apply(change, store); });
}

std::variant<ApiAnswer, StoreCall> Api::onPurge(const RequestHead& head,
                                                std::string_view body) const {
  auto request = parsePurge(body);
  if (!request.ok()) {
    return invalid(request.status());
  }
  request->purge.actor = shownText(head.actor.value_or(""));
  return StoreCall(
      [request = *std::move(request)](store::OperatorStore& store) -> absl::StatusOr<ApiAnswer> {
        const auto result = store.purge(request.purge, request.limit);
        if (!result.ok()) {
          return result.status();
        }
        return jsonAnswer(encodePurge(request.purge, *result));
      });
}

std::variant<ApiAnswer, StoreCall> Api::onWebhook(const RequestHead& head,
                                                  std::string_view body) const {
  const SignatureResult signature = verify(head, body);
  if (signature.verdict != SignatureVerdict::Valid) {
    return refusal(signature.verdict);
  }
  auto event = parseWebhookEvent(body);
  if (!event.ok()) {
    return invalid(event.status());
  }
  return StoreCall([event = *std::move(event), actor = "webhook:" + signature.key_id](
                       store::OperatorStore& store) { return settleEvent(event, actor, store); });
}

SignatureResult Api::verify(const RequestHead& head, std::string_view body) const {
  const protocol::WebhookSettings& webhook = *settings_.webhook;
  if (webhook.keys.empty()) {
    return {SignatureVerdict::Valid, shownText(head.actor.value_or("unsigned"))};
  }
  const auto keys = keys_();
  return verifySignature(webhook.format, head.signature, body, *keys,
                         {secondsNow(), webhook.tolerance});
}

ShowResponse Api::showResponse(const std::string& operation) const {
  const auto& shown = settings_.show_responses;
  const bool found = std::any_of(shown.begin(), shown.end(), [&](const std::string& name) {
    return name == AllOperations || name == operation;
  });
  return found ? ShowResponse::Yes : ShowResponse::No;
}

}  // namespace idempotency::operator_api
