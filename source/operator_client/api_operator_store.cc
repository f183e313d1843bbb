#include "source/operator_client/api_operator_store.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <iterator>
#include <string_view>
#include <variant>

#include <absl/status/status.h>

#include "source/operator_api/problem.h"
#include "source/operator_api/record_id.h"
#include "source/operator_api/requests.h"
#include "source/operator_client/refusal.h"
#include "source/protocol/key_hash.h"

namespace idempotency::operator_client {
namespace {

std::string recordPath(const protocol::Identity& identity) {
  return "/v1/records/" + operator_api::recordId(identity);
}

template <class Filter>
std::optional<protocol::Identity> identityIn(const Filter& filter) {
  if (!filter.tenant.has_value() || !filter.operation.has_value() || !filter.key.has_value()) {
    return std::nullopt;
  }
  return protocol::Identity{*filter.tenant, *filter.operation, *filter.key};
}

template <class Value>
bool matches(const std::optional<Value>& wanted, const Value& value) {
  return !wanted.has_value() || *wanted == value;
}

// Whether a record has what the server was not asked for, because the record's id was.
bool matches(const store::RecordFilter& filter, const store::ListedRecord& listed) {
  const auto& states = filter.states;
  const auto& [identity, record, withheld] = listed;
  return (states.empty() || std::ranges::find(states, record.state) != states.end()) &&
         (!filter.key_hash.has_value() || *filter.key_hash == protocol::keyHash(identity)) &&
         matches(filter.attempt, record.attempt) && matches(filter.error, record.last_error) &&
         (!filter.min_age.has_value() || record.claim_age >= *filter.min_age) &&
         (!filter.dead_letters_only || record.dead_letter);
}

std::string unreadable(const absl::Status& status) {
  return fmt::format("the answer cannot be read: {}", std::string(status.message()));
}

// The first entries of a timeline, if it has as many as are asked for.
std::optional<store::AuditPage> firstOf(store::AuditPage timeline, uint32_t limit) {
  if (timeline.entries.size() < limit && timeline.more) {
    return std::nullopt;
  }
  if (timeline.entries.size() > limit) {
    timeline.entries.resize(limit);
    timeline.more = true;
  }
  return timeline;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ApiOperatorStore>> ApiOperatorStore::open(const ApiAccess& access) {
  auto client = HttpClient::create(access);
  if (!client.ok()) {
    return client.status();
  }
  return std::unique_ptr<ApiOperatorStore>(new ApiOperatorStore(*std::move(client)));
}

// --- Looking

absl::StatusOr<store::RecordPage> ApiOperatorStore::list(
    const store::RecordFilter& filter, const std::optional<protocol::Identity>& after,
    uint32_t limit) {
  if (const auto identity = identityIn(filter); identity.has_value() && !after.has_value()) {
    return listOne(filter, *identity);
  }
  store::RecordPage all;
  operator_api::RecordQuery query{.filter = filter, .after = after, .limit = 0};
  do {
    const auto missing = limit - static_cast<uint32_t>(all.records.size());
    query.limit = std::min(missing, operator_api::MaxPageLimit);
    const auto body = read("/v1/records?" + operator_api::encodeRecordQuery(query));
    if (!body.ok()) {
      return body.status();
    }
    auto page = decoded(operator_api::decodeRecords(*body));
    if (!page.ok()) {
      return page.status();
    }
    if (page->records.size() > query.limit || (page->more && page->records.empty())) {
      return error("the server's page is not the one that was asked for");
    }
    all.more = page->more;
    std::ranges::move(page->records, std::back_inserter(all.records));
    query.after = all.records.empty() ? after : std::optional(all.records.back().identity);
  } while (all.more && all.records.size() < limit);
  return all;
}

absl::StatusOr<store::RecordPage> ApiOperatorStore::listOne(const store::RecordFilter& filter,
                                                            const protocol::Identity& identity) {
  auto record = find(identity);
  if (!record.ok()) {
    return record.status();
  }
  store::RecordPage page;
  if (record->has_value() && matches(filter, **record)) {
    page.records.push_back({.identity = identity, .record = std::move((*record)->record)});
    page.records.back().record.response.reset();
  }
  return page;
}

absl::StatusOr<std::optional<store::ListedRecord>> ApiOperatorStore::find(
    const protocol::Identity& identity) {
  timeline_.reset();
  const HttpResult result = client_->get(recordPath(identity));
  if (const auto* none = std::get_if<NoAnswer>(&result)) {
    return error(*none);
  }
  const auto& answer = std::get<HttpAnswer>(result);
  if (isProblem(answer, operator_api::ApiProblem::RecordNotFound)) {
    return std::optional<store::ListedRecord>();
  }
  if (!isResult(answer)) {
    return error(explain(answer));
  }
  auto detail = decoded(operator_api::decodeRecord(answer.body));
  if (!detail.ok()) {
    return detail.status();
  }
  if (detail->record.identity != identity) {
    return error("the server's record is not the one that was asked for");
  }
  timeline_.emplace(identity, std::move(detail->timeline));
  return std::optional(std::move(detail->record));
}

absl::StatusOr<store::AuditPage> ApiOperatorStore::audit(const store::AuditFilter& filter,
                                                         std::optional<int64_t> before,
                                                         uint32_t limit) {
  if (!before.has_value() && !filter.attempt.has_value()) {
    auto timeline = timelineOf(filter);
    if (!timeline.ok()) {
      return timeline.status();
    }
    auto first = timeline->has_value() ? firstOf(**std::move(timeline), limit) : std::nullopt;
    if (first.has_value()) {
      return *std::move(first);
    }
  }
  return auditByQuery(filter, before, limit);
}

// None: the filter names no record that there is.
absl::StatusOr<std::optional<store::AuditPage>> ApiOperatorStore::timelineOf(
    const store::AuditFilter& filter) {
  const auto identity = identityIn(filter);
  if (!identity.has_value()) {
    return std::nullopt;
  }
  if (!timeline_.has_value() || timeline_->first != *identity) {
    if (const auto found = find(*identity); !found.ok()) {
      return found.status();
    }
  }
  auto known = std::exchange(timeline_, std::nullopt);
  return known.has_value() ? std::optional(std::move(known->second)) : std::nullopt;
}

absl::StatusOr<store::AuditPage> ApiOperatorStore::auditByQuery(const store::AuditFilter& filter,
                                                                std::optional<int64_t> before,
                                                                uint32_t limit) {
  store::AuditPage all;
  operator_api::AuditQuery query{.filter = filter, .before = before, .limit = 0};
  do {
    const auto missing = limit - static_cast<uint32_t>(all.entries.size());
    query.limit = std::min(missing, operator_api::MaxPageLimit);
    const auto body = read("/v1/audit?" + operator_api::encodeAuditQuery(query));
    if (!body.ok()) {
      return body.status();
    }
    auto page = decoded(operator_api::decodeAudit(*body));
    if (!page.ok()) {
      return page.status();
    }
    if (page->entries.size() > query.limit || (page->more && page->entries.empty())) {
      return error("the server's page is not the one that was asked for");
    }
    all.more = page->more;
    std::ranges::move(page->entries, std::back_inserter(all.entries));
    query.before = all.entries.empty() ? before : std::optional(all.entries.back().id);
  } while (all.more && all.entries.size() < limit);
  return all;
}

absl::StatusOr<store::Summary> ApiOperatorStore::summary() {
  const auto body = read("/v1/summary");
  if (!body.ok()) {
    return body.status();
  }
  auto answer = decoded(operator_api::decodeSummary(*body));
  if (!answer.ok()) {
    return answer.status();
  }
  answer->summary.read_only = answer->facts.read_only;
  return std::move(answer->summary);
}

absl::StatusOr<std::vector<store::UnsettledUse>> ApiOperatorStore::unsettled() {
  auto all = summary();
  if (!all.ok()) {
    return all.status();
  }
  return std::move(all->unsettled);
}

// --- Changing

absl::StatusOr<store::ChangeResult> ApiOperatorStore::change(const store::OperatorChange& change) {
  const auto kind = operator_api::changeKind(change.action);
  if (!kind.has_value()) {
    return absl::UnimplementedError("the operator API does not offer this action");
  }
  const std::string path = fmt::format("{}/{}", recordPath(change.seen.identity),
                                       std::string(operator_api::pathSegment(*kind)));
  const auto answer = write(path, operator_api::encodeChangeRequest(change), change.dry_run);
  if (!answer.ok()) {
    return answer.status();
  }
  auto result = isResult(*answer) || isProblem(*answer)
                    ? operator_api::decodeChange(answer->status, answer->body)
                    : absl::StatusOr<store::ChangeResult>(absl::UnknownError(""));
  if (result.ok()) {
    return result;
  }
  if (isResult(*answer)) {
    return doubtful(unreadable(result.status()), change.dry_run);
  }
  return refused(*answer, change.dry_run);
}

absl::StatusOr<store::PurgeResult> ApiOperatorStore::purge(const store::Purge& purge,
                                                           uint32_t limit) {
  const operator_api::PurgeRequest request{.purge = purge,
                                           .limit = std::min(limit, operator_api::MaxPurgeLimit)};
  const auto answer =
      write("/v1/tenants/purge", operator_api::encodePurgeRequest(request), purge.dry_run);
  if (!answer.ok()) {
    return answer.status();
  }
  if (!isResult(*answer)) {
    return refused(*answer, purge.dry_run);
  }
  auto result = operator_api::decodePurge(answer->body);
  return result.ok() ? std::move(result) : doubtful(unreadable(result.status()), purge.dry_run);
}

absl::StatusOr<std::vector<store::DueRecord>> ApiOperatorStore::takeDue(
    const store::OperationSet& /*operations*/, std::chrono::milliseconds /*hold*/,
    uint32_t /*limit*/) {
  return absl::UnimplementedError("the operator API does not give out records to a reconciler");
}

// --- What comes over the wire

absl::Status ApiOperatorStore::error(const std::string& what) const {
  return absl::UnavailableError(fmt::format("{}: {}", client_->base().text, what));
}

// Without an answer, and surely without an effect.
absl::Status ApiOperatorStore::error(const NoAnswer& none) const {
  return none.bad_file ? absl::InvalidArgumentError(none.reason) : error(none.reason);
}

// Of a change that was not answered with its outcome.
absl::Status ApiOperatorStore::doubtful(const std::string& what, bool dry_run) const {
  return error(dry_run ? what
                       : what +
                             "; the change may have been made: look at the record before you "
                             "repeat it");
}

absl::StatusOr<std::string> ApiOperatorStore::read(const std::string& path) {
  HttpResult result = client_->get(path);
  if (const auto* none = std::get_if<NoAnswer>(&result)) {
    return error(*none);
  }
  auto& answer = std::get<HttpAnswer>(result);
  if (!isResult(answer)) {
    return error(explain(answer));
  }
  return std::move(answer.body);
}

template <class Result>
absl::StatusOr<Result> ApiOperatorStore::decoded(absl::StatusOr<Result> result) const {
  if (!result.ok()) {
    return error(unreadable(result.status()));
  }
  return result;
}

// Any answer at all; an error says what may have become of the change.
absl::StatusOr<HttpAnswer> ApiOperatorStore::write(const std::string& path, const std::string& json,
                                                   bool dry_run) {
  timeline_.reset();
  HttpResult result = client_->post(path, json);
  if (const auto* none = std::get_if<NoAnswer>(&result)) {
    NoAnswer safe = *none;
    safe.reason += "; nothing was changed";
    return none->perhaps_carried_out ? doubtful(none->reason, dry_run) : error(safe);
  }
  return std::get<HttpAnswer>(std::move(result));
}

absl::Status ApiOperatorStore::refused(const HttpAnswer& answer, bool dry_run) const {
  switch (effectOf(answer)) {
    case Effect::None:
      return error(explain(answer) + "; nothing was changed");
    case Effect::Told:
      return error(explain(answer));
    case Effect::Perhaps:
      break;
  }
  return doubtful(explain(answer), dry_run);
}

}  // namespace idempotency::operator_client
