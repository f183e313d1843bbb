#include "source/filter/trace.h"

#include <fmt/format.h>
#include <string>

#include "source/filter/key_hash.h"

namespace idempotency {
namespace {

constexpr std::string_view Namespace = "envoy-idempotency";

}  // namespace

void traceRequest(envoy::Stream stream, const Identity& identity) {
  const std::string hash = keyHash(identity);
  stream.setMetadata(Namespace, "key_hash", hash);
  stream.setMetadata(Namespace, "tenant", identity.tenant);
  stream.setSpanTag("idempotency.key_hash", hash);
  stream.setSpanTag("idempotency.tenant", identity.tenant);
}

void traceAttempt(envoy::Stream stream, Attempt attempt) {
  const std::string text = fmt::format("{}", attempt);
  stream.setMetadata(Namespace, "attempt", text);
  stream.setSpanTag("idempotency.attempt", text);
}

void traceOutcome(envoy::Stream stream, std::string_view outcome) {
  stream.setMetadata(Namespace, "outcome", outcome);
  stream.setSpanTag("idempotency.outcome", outcome);
}

void traceReplay(envoy::Stream stream) {
  stream.setMetadataFlag(Namespace, "replayed", true);
  stream.setSpanTag("idempotency.replayed", "true");
}

}  // namespace idempotency
