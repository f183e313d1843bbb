#pragma once

#include <span>
#include <string>
#include <string_view>

#include "source/envoy/stream.h"
#include "source/protocol/record.h"

namespace idempotency::filter {

// What a request writes for access logs (dynamic metadata `envoy-idempotency`) and traces (tags of
// the active span). Worker thread, while the stream exists. Neither contains the key itself.
//
// Writing metadata is expensive, so what is known early (key_hash, tenant) is written together with
// what follows, at the latest at the end, by finish().
class Trace {
public:
  // The identity and its `key_hash`.
  void onIdentity(const protocol::Identity& identity, std::string key_hash);
  void onAttempt(envoy::Stream stream, protocol::Attempt attempt);
  // The outcome, in one word; the last one stays.
  void onOutcome(envoy::Stream stream, std::string_view outcome);
  void onReplay(envoy::Stream stream);
  void finish(envoy::Stream stream);

  // Empty before onIdentity().
  const std::string& keyHash() const { return key_hash_; }

private:
  // Writes what is pending, and one more tag.
  void write(envoy::Stream stream, std::string_view tag, std::string_view value);
  // Changes the names to those of the metadata.
  static void write(envoy::Stream stream, std::span<envoy::Field> tags);

  bool due_ = false;  // key_hash_ and tenant_ are not written yet.
  std::string key_hash_;
  std::string tenant_;
};

}  // namespace idempotency::filter
