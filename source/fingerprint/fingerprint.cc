#include "source/fingerprint/fingerprint.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "source/fingerprint/framing.h"
#include "source/fingerprint/request_parts.h"

namespace idempotency::fingerprint {
namespace {

bool isKnown(uint8_t version) {
  return version >= OldestFingerprintVersion && version <= FingerprintVersion;
}

std::optional<FingerprintResult> finish(PartHasher& hasher, const BodyOutcome& body,
                                        uint8_t version) {
  const std::optional<Sha256Digest> digest = hasher.finish();
  if (!digest.has_value()) {
    return std::nullopt;
  }
  FingerprintResult result = {
      .fingerprint = {}, .body_form = body.form, .rejection = body.rejection};
  result.fingerprint[0] = version;
  std::copy(digest->begin(), digest->end(), result.fingerprint.begin() + 1);
  return result;
}

// Hashes parts and keeps a copy of each.
class PartCollector : public PartSink {
public:
  void begin(PartKind kind, uint64_t size) override {
    hasher_.begin(kind, size);
    kinds_.push_back(kind);
    parts_.emplace_back();
    parts_.back().bytes.reserve(size);
  }
  void append(std::string_view bytes) override {
    hasher_.append(bytes);
    parts_.back().bytes += bytes;
  }

  PartHasher& hasher() { return hasher_; }
  std::vector<FingerprintPart> takeNamed();

private:
  PartHasher hasher_;
  std::vector<PartKind> kinds_;
  std::vector<FingerprintPart> parts_;
};

// `of` is the last header name or pointer.
std::string nameOf(PartKind kind, std::string_view of) {
  switch (kind) {
    case PartKind::Version:
      return "version";
    case PartKind::Method:
      return "method";
    case PartKind::Path:
      return "path";
    case PartKind::Query:
      return "query";
    case PartKind::MediaType:
      return "media type";
    case PartKind::HeaderName:
      return "header";
    case PartKind::HeaderValue:
      return fmt::format("header {}", of);
    case PartKind::Principal:
      return "principal";
    case PartKind::Authority:
      return "authority";
    case PartKind::QueryAsSent:
      return "query (as sent)";
    case PartKind::BodyEmpty:
      return "body (empty)";
    case PartKind::BodyBytes:
      return "body (bytes)";
    case PartKind::BodyCanonicalJson:
      return "body (canonical JSON)";
    case PartKind::BodyRejectedJson:
      return "body (bytes, since not safely JSON)";
    case PartKind::BodyIgnored:
      return "body (ignored)";
    case PartKind::BodySelected:
      return "body pointer";
    case PartKind::SelectedValue:
      return fmt::format("body at '{}'", of);
    case PartKind::SelectedAbsent:
      return fmt::format("body at '{}' (absent)", of);
  }
  return "unknown";
}

std::vector<FingerprintPart> PartCollector::takeNamed() {
  std::string_view of;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (kinds_[i] == PartKind::HeaderName || kinds_[i] == PartKind::BodySelected) {
      of = parts_[i].bytes;
    }
    parts_[i].name = nameOf(kinds_[i], of);
  }
  return std::move(parts_);
}

}  // namespace

std::optional<FingerprintResult> computeFingerprint(const RequestParts& parts,
                                                    const FingerprintRules& rules,
                                                    uint8_t version) {
  if (!isKnown(version)) {
    return std::nullopt;
  }
  PartHasher hasher;
  const BodyOutcome body = writeRequestParts(parts, rules, version, hasher);
  return finish(hasher, body, version);
}

std::optional<FingerprintExplanation> explainFingerprint(const RequestParts& parts,
                                                         const FingerprintRules& rules,
                                                         uint8_t version) {
  if (!isKnown(version)) {
    return std::nullopt;
  }
  PartCollector collector;
  const BodyOutcome body = writeRequestParts(parts, rules, version, collector);
  const std::optional<FingerprintResult> result = finish(collector.hasher(), body, version);
  if (!result.has_value()) {
    return std::nullopt;
  }
  return FingerprintExplanation{*result, collector.takeNamed()};
}

}  // namespace idempotency::fingerprint
