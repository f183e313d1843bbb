#include "test/operator_api/sample_records.h"

#include <chrono>

#include "source/message/stored_response.h"

namespace idempotency::operator_api {
namespace {

using std::chrono::milliseconds;

constexpr store::StoreTime Created = store::StoreTime(milliseconds(1'790'000'000'123));

store::Record common() {
  store::Record record;
  record.attempt = LargestAttempt;
  record.fingerprint = std::string("\x02\x00\xff", 3);
  record.recovery_point = "started";
  record.claim_age = milliseconds(61'500);
  record.created_at = Created;
  record.expires_at = Created + std::chrono::hours(24);
  record.life_left = milliseconds(1001);
  return record;
}

}  // namespace

store::ListedRecord unknownRecord() {
  store::Record record = common();
  record.state = protocol::RecordState::Unknown;
  record.last_error = "upstream_timeout";
  record.reconcile_after = milliseconds(2500);
  record.dead_letter = true;
  return {HostileIdentity, record};
}

store::ListedRecord completedRecord() {
  store::Record record = common();
  record.state = protocol::RecordState::Completed;
  record.completed_at = Created + std::chrono::seconds(1);
  record.status = 201;
  record.response_schema = protocol::ResponseSchema;
  record.response = message::serializeResponse(
      {201, {{"content-type", "application/octet-stream"}}, std::string("\0\xff", 2), {}});
  return {{"acme", "create-payment", "8e03978e-40d5-43dd-bc93-6894a57f9324"}, record};
}

store::AuditPage sampleTimeline() {
  store::AuditEntry one;
  one.id = 7;
  one.at = Created;
  one.actor = "alice";
  one.action = "resolve_completed";
  one.identity = HostileIdentity;
  one.attempt = LargestAttempt;
  one.records = 1;
  one.detail = "case 12";
  store::AuditEntry other;
  other.id = 3;
  other.at = Created;
  other.actor = "envoy/1";
  other.action = "delete";
  other.records = 400;
  return {{one, other}, true};
}

}  // namespace idempotency::operator_api
