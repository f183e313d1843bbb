#include "source/config/policy_reader.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "api/idempotency/v1/idempotency.pb.h"
#include "source/config/json_message.h"

namespace idempotency::config {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::util::MessageDifferencer;

v1::Policy parse(std::string_view json) {
  v1::Policy message;
  FieldErrors errors;
  readJson(json, message, errors);
  EXPECT_TRUE(errors.empty()) << errors.status();
  return message;
}

// Two policies that set every field, to different values.
v1::Policy everyField() {
  return parse(R"({
    "enforcement": "OPTIONAL", "methods": ["PUT"], "key_syntax": "RAW", "min_key_length": 20,
    "max_key_length": 100, "uuid_only": true, "scope": "TENANT", "operation": "op",
    "fingerprint": {"mode": "RAW", "headers": ["x-b"]}, "flavor": "STRIPE", "mismatch_status": 409,
    "in_flight": {"action": "WAIT", "wait": "2s"}, "on_store_failure": "FAIL_OPEN",
    "ttl": "100s", "lease": "10s", "on_lease_expired": "RETRY", "on_expired": "GONE",
    "unknown_retention": "7200s", "own_transaction": true, "server_errors": "UNKNOWN", "retryable_statuses": [429],
    "released_statuses": [404], "max_request_bytes": 10, "max_response_bytes": 20,
    "store_response": false, "unstored_headers": ["x-a"], "completion_timeout": "1s",
    "docs_url": "https://d.example/x", "detached": {"timeout": "9s"},
    "max_request_age": {"header": "x-time", "limit": "60s"}})");
}
v1::Policy everyFieldElse() {
  return parse(R"({
    "enforcement": "OFF", "methods": ["DELETE"], "key_syntax": "STRICT", "min_key_length": 1,
    "max_key_length": 40, "uuid_only": false, "scope": "TENANT_AND_OPERATION", "operation": "p",
    "fingerprint": {}, "flavor": "IETF", "mismatch_status": 400, "in_flight": {},
    "on_store_failure": "FAIL_CLOSED", "ttl": "50s", "lease": "20s", "on_lease_expired": "UNKNOWN",
    "on_expired": "RUN", "unknown_retention": "9000s", "own_transaction": false, "server_errors": "RETRY",
    "retryable_statuses": [], "released_statuses": [], "max_request_bytes": 0,
    "max_response_bytes": 0, "store_response": true, "unstored_headers": [],
    "completion_timeout": "2s", "docs_url": "http://e.example", "detached": {},
    "max_request_age": {"header": "x-sent", "limit": "30s"}})");
}

std::vector<const FieldDescriptor*> setFields(const v1::Policy& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  return fields;
}

v1::Policy without(v1::Policy message, const FieldDescriptor* field) {
  message.GetReflection()->ClearField(&message, field);
  return message;
}

TEST(OverlayPolicyTest, SamplesSetEveryField) {
  const auto count = static_cast<size_t>(v1::Policy::descriptor()->field_count());
  EXPECT_EQ(setFields(everyField()).size(), count);
  EXPECT_EQ(setFields(everyFieldElse()).size(), count);
}

// Also with zero, with an empty list and with a message without fields.
TEST(OverlayPolicyTest, WhatTheRouteSetsReplacesTheFiltersAsAWhole) {
  EXPECT_TRUE(
      MessageDifferencer::Equals(overlayPolicy(everyFieldElse(), everyField()), everyFieldElse()));
  EXPECT_TRUE(
      MessageDifferencer::Equals(overlayPolicy(everyField(), everyFieldElse()), everyField()));
}

TEST(OverlayPolicyTest, WhatTheRouteDoesNotSetIsTheFilters) {
  EXPECT_TRUE(MessageDifferencer::Equals(overlayPolicy({}, everyField()), everyField()));
  EXPECT_TRUE(MessageDifferencer::Equals(overlayPolicy(everyField(), {}), everyField()));
  for (const FieldDescriptor* field : setFields(everyField())) {
    const v1::Policy both = overlayPolicy(without(everyFieldElse(), field), everyField());
    EXPECT_TRUE(MessageDifferencer::Equals(without(both, field), without(everyFieldElse(), field)));
    EXPECT_TRUE(MessageDifferencer::Equals(overlayPolicy(both, {}), both));
    v1::Policy only = both;
    for (const FieldDescriptor* other : setFields(both)) {
      only = other == field ? only : without(only, other);
    }
    EXPECT_TRUE(MessageDifferencer::Equals(overlayPolicy(only, everyField()), everyField()))
        << field->name();
  }
}

TEST(ReadPolicyTest, ContradictionsOfWrongValuesAreNotReported) {
  FieldErrors errors;
  (void)readPolicy(parse(R"({"min_key_length": 300, "max_key_length": 20})"), errors);
  EXPECT_EQ(errors.status().message(), "policy.min_key_length: got 300; expected 1 to 255");
}

TEST(ReadPolicyTest, KeepsEarlierErrors) {
  FieldErrors errors;
  errors.add("store", "required");
  (void)readPolicy(parse(R"({"min_key_length": 30, "max_key_length": 20})"), errors);
  EXPECT_EQ(errors.status().message(),
            "store: required | policy.min_key_length: got 30; expected at most "
            "policy.max_key_length (20)");
}

}  // namespace
}  // namespace idempotency::config
