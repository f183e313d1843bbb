#pragma once

#include <memory>
#include <string>

#include "gtest/gtest.h"

#include "test/filter/store_in_memory.h"
#include "test/support/fake_envoy.h"

namespace idempotency::test {

// The module in a fake Envoy, on a store in memory. Everything happens on the test's thread but
// for the store: settle() lets it answer and delivers the answers.
class FilterRig : public ::testing::Test {
protected:
  FilterRig();
  ~FilterRig() override;

  // Fields that replace the rig's own, as JSON members without braces: R"("limits": {...})".
  void useFilter(const std::string& fields);
  // A policy's fields besides enforcement and operation.
  void usePolicy(const std::string& fields);

  // The config names PostgreSQL, for policies that only it allows; the store is the same.
  void usePostgres() { store_ = "postgres"; }

  // How long a request waits for the store; patient by default.
  void useStoreTimeout(const std::string& duration) { store_timeout_ = duration; }

  fake::Config& config();
  const fake::Route& route();
  FakeStore& store() { return openedStore(); }
  FakeDatabase& database() { return *storeDatabase(); }

  // A request with a good key and tenant, with these headers in place of the usual ones; empty
  // takes one out.
  static fake::FieldList request(const fake::FieldList& changes = {});
  static protocol::Identity identity() { return {"acme", "pay", KeyText}; }

  std::unique_ptr<fake::Stream> newStream();
  // A new stream with this request, its body whole, and the store's answer delivered.
  std::unique_ptr<fake::Stream> send(const std::string& body = "{}",
                                     const fake::FieldList& changes = {});
  // The upstream answers with this, and its storing is done.
  void respond(fake::Stream& stream, const std::string& status, const std::string& body,
               const fake::FieldList& headers = {});
  // The headers alone, as the upstream sends them.
  static void responseHeaders(fake::Stream& stream, const std::string& status, bool end,
                              const fake::FieldList& headers = {});

  // Waits for the store and delivers what it answered.
  void settle(fake::Stream& stream);
  // Until the condition holds; the store goes on meanwhile. Fails the test after a long time.
  void settleUntil(fake::Stream& stream, const std::function<bool()>& condition);

  std::optional<store::Record> record(const protocol::Identity& which = identity());
  protocol::RecordState stateOf(const protocol::Identity& which = identity());

  static std::string header(const fake::FieldList& headers, const std::string& name);
  static constexpr char KeyText[] = "0123456789abcdef";

private:
  std::string store_ = "sqlite";
  std::string store_timeout_ = "30s";
  std::string filter_fields_;
  std::string policy_fields_;
  std::unique_ptr<fake::Config> config_;
  std::unique_ptr<fake::Route> route_;
};

}  // namespace idempotency::test
