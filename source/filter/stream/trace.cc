#include "source/filter/stream/trace.h"

#include <array>
#include <fmt/format.h>
#include <utility>

namespace idempotency::filter {
namespace {

constexpr std::string_view Namespace = "envoy-idempotency";

// The names of a span's tags; those of the metadata are the part after the dot.
constexpr std::string_view KeyHashTag = "idempotency.key_hash";
constexpr std::string_view TenantTag = "idempotency.tenant";
constexpr std::string_view AttemptTag = "idempotency.attempt";
constexpr std::string_view OutcomeTag = "idempotency.outcome";
constexpr std::string_view ReplayedTag = "idempotency.replayed";

constexpr std::string_view nameOf(std::string_view tag) {
  return tag.substr(tag.find('.') + 1);
}

}  // namespace

void Trace::onIdentity(const protocol::Identity& identity, std::string key_hash) {
  key_hash_ = std::move(key_hash);
  tenant_ = identity.tenant;
  due_ = true;
}

void Trace::onAttempt(envoy::Stream stream, protocol::Attempt attempt) {
  write(stream, AttemptTag, fmt::format_int(attempt).str());
}

void Trace::onOutcome(envoy::Stream stream, std::string_view outcome) {
  write(stream, OutcomeTag, outcome);
}

void Trace::onReplay(envoy::Stream stream) {
  onOutcome(stream, "replayed");
  stream.setMetadataFlag(Namespace, nameOf(ReplayedTag), true);
  stream.setSpanTag(ReplayedTag, "true");
}

void Trace::finish(envoy::Stream stream) {
  if (std::exchange(due_, false)) {
    std::array tags = {envoy::Field(KeyHashTag, key_hash_), envoy::Field(TenantTag, tenant_)};
    write(stream, tags);
  }
}

void Trace::write(envoy::Stream stream, std::string_view tag, std::string_view value) {
  std::array tags = {envoy::Field(tag, value), envoy::Field(KeyHashTag, key_hash_),
                     envoy::Field(TenantTag, tenant_)};
  write(stream, std::span(tags).first(std::exchange(due_, false) ? tags.size() : 1));
}

void Trace::write(envoy::Stream stream, std::span<envoy::Field> tags) {
  stream.setSpanTags(tags);
  for (envoy::Field& tag : tags) {
    tag = envoy::Field(nameOf(tag.nameView()), tag.valueView());
  }
  stream.setMetadata(Namespace, tags);
}

}  // namespace idempotency::filter
