#pragma once

#include <span>
#include <string>
#include <string_view>

#include "source/envoy/stream.h"
#include "source/protocol/record.h"

namespace idempotency {

// What a request leaves behind for access logs (dynamic metadata `envoy-idempotency`) and traces
// (tags of the active span). Worker thread, while the stream lives. The key itself is in neither.
//
// Writing metadata is dear, so what is known early (key_hash, tenant) goes out with what comes
// next: at the latest at the end, by finish().
class Trace {
public:
  // Who asks for what; `key_hash` is that of the identity.
  void onIdentity(const Identity& identity, std::string key_hash);
  void onAttempt(envoy::Stream stream, Attempt attempt);
  // What became of it, in one word: the last one stays.
  void onOutcome(envoy::Stream stream, std::string_view outcome);
  void onReplay(envoy::Stream stream);
  void finish(envoy::Stream stream);

  // Empty before onIdentity().
  const std::string& keyHash() const { return key_hash_; }

private:
  // What is due, and one tag more.
  void write(envoy::Stream stream, std::string_view tag, std::string_view value);
  // Changes their names into those of the metadata.
  static void write(envoy::Stream stream, std::span<envoy::Field> tags);

  bool due_ = false;  // key_hash_ and tenant_ are not written yet.
  std::string key_hash_;
  std::string tenant_;
};

}  // namespace idempotency
