// The input is a request file of `idempotencyctl fingerprint diff`. What clients are promised about
// "the same request" is said of pairs: the request and one that differs in a single way.

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/cli/request_text.h"
#include "source/fingerprint/fingerprint.h"
#include "test/fuzz/fuzz.h"

namespace idempotency {
namespace {

// With all that version 2 looks at.
struct Request {
  cli::RequestText text;
  std::optional<std::string> authority;
  std::optional<std::string> content_type;
};

fingerprint::Fingerprint fingerprintOf(const Request& request, uint8_t version) {
  std::vector<fingerprint::RequestHeader> headers;
  for (const auto& [name, value] : request.text.headers) {
    headers.push_back({name, value});
  }
  const std::array<std::string_view, 1> body = {request.text.body};
  const fingerprint::RequestParts parts = {.method = request.text.method,
                                           .scheme = "https",
                                           .authority = request.authority,
                                           .path = request.text.path,
                                           .content_type = request.content_type,
                                           .headers = headers,
                                           .body = body};
  // By its bytes: other fuzzers know what may change in JSON.
  const fingerprint::FingerprintRules rules = {.mode = fingerprint::FingerprintMode::Raw};
  const auto computed = fingerprint::computeFingerprint(parts, rules, version);
  const auto explained = fingerprint::explainFingerprint(parts, rules, version);
  FUZZ_CHECK(computed.has_value() && explained.has_value());
  FUZZ_CHECK(computed->fingerprint == explained->result.fingerprint);
  FUZZ_CHECK(computed->fingerprint.front() == version);
  return computed->fingerprint;
}

class Pairs {
public:
  explicit Pairs(const Request& request)
      : request_(request), one_(fingerprintOf(request, 1)), two_(fingerprintOf(request, 2)) {}

  // Both versions agree.
  template <class Change>
  void same(const Change& change) const {
    FUZZ_CHECK(after(change, 1) == one_ && after(change, 2) == two_);
  }
  template <class Change>
  void different(const Change& change) const {
    FUZZ_CHECK(after(change, 1) != one_ && after(change, 2) != two_);
  }
  // Version 1 does not look at it.
  template <class Change>
  void differentSinceVersionTwo(const Change& change) const {
    FUZZ_CHECK(after(change, 1) == one_ && after(change, 2) != two_);
  }

private:
  template <class Change>
  fingerprint::Fingerprint after(const Change& change, uint8_t version) const {
    Request changed = request_;
    change(changed);
    return fingerprintOf(changed, version);
  }

  const Request& request_;
  const fingerprint::Fingerprint one_;
  const fingerprint::Fingerprint two_;
};

void checkAuthority(const Request& request, const Pairs& pairs) {
  if (!request.authority.has_value()) {
    pairs.differentSinceVersionTwo([](Request& r) { r.authority = ""; });
    return;
  }
  pairs.differentSinceVersionTwo([](Request& r) { r.authority.reset(); });
  pairs.differentSinceVersionTwo([](Request& r) { *r.authority += 'x'; });
  pairs.differentSinceVersionTwo([](Request& r) { r.authority->insert(0, "x"); });
  if (request.authority->find_first_of("@:") == std::string::npos) {
    pairs.same([](Request& r) { *r.authority += ":443"; });
    pairs.same([](Request& r) { *r.authority += ':'; });
    pairs.differentSinceVersionTwo([](Request& r) { *r.authority += ":80"; });
    pairs.same([](Request& r) {
      for (char& c : *r.authority) {
        c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
      }
    });
  }
}

void checkHeaders(const Pairs& pairs) {
  for (const char* name :
       {"content-encoding", "if-match", "if-none-match", "if-unmodified-since"}) {
    pairs.differentSinceVersionTwo([&](Request& r) { r.text.headers.emplace_back(name, ""); });
    pairs.differentSinceVersionTwo([&](Request& r) { r.text.headers.emplace_back(name, "x"); });
  }
  for (const char* name : {"x-forwarded-host", "user-agent", "host", "if-modified-since"}) {
    pairs.same([&](Request& r) { r.text.headers.emplace_back(name, "x"); });
  }
}

void checkTarget(const Pairs& pairs) {
  pairs.different([](Request& r) { r.text.method += 'X'; });
  pairs.different([](Request& r) {
    r.text.path.insert(std::min(r.text.path.find('?'), r.text.path.size()), "x");
  });
  pairs.different(
      [](Request& r) { r.text.path += r.text.path.find('?') == std::string::npos ? "?" : "&"; });
  pairs.different([](Request& r) { r.text.body += 'x'; });
  pairs.different([](Request& r) {
    // From the end of one part to the beginning of another.
    r.text.body.insert(0, r.text.path.substr(r.text.path.size() - 1));
    r.text.path.pop_back();
  });
  pairs.different([](Request& r) { r.content_type = r.content_type.value_or("a/b") + ";z=1"; });
}

}  // namespace
}  // namespace idempotency

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace idempotency;
  const auto text = cli::parseRequestText(fuzzText(data, size));
  if (!text.ok() || !cli::authority(*text).ok() || !cli::contentType(*text).ok()) {
    return 0;
  }
  Request request = {.text = *text, .authority = {}, .content_type = {}};
  if (const auto host = *cli::authority(*text)) {
    request.authority = std::string(*host);
  }
  if (const auto type = *cli::contentType(*text)) {
    request.content_type = std::string(*type);
  }
  const Pairs pairs(request);
  checkAuthority(request, pairs);
  checkHeaders(pairs);
  checkTarget(pairs);
  return 0;
}
