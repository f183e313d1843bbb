// The input is what a server answered to a client of the operators' API. Its first byte says to
// which question.

#include <string>

#include "source/operator_api/decode.h"
#include "source/operator_api/encode.h"
#include "source/operator_client/server_text.h"
#include "test/fuzz/fuzz.h"

namespace idempotency {
namespace {

using namespace operator_api;

// A terminal gets one line, and nothing that would control it.
void checkText(std::string_view text) {
  const std::string line = operator_client::serverText(text);
  FUZZ_CHECK(line.size() <= 2048);
  for (const char c : line) {
    FUZZ_CHECK(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }
}

// What was understood is written as it was understood, and understood in the same way again.
template <class Result, class Decode, class Encode>
void checkStable(const absl::StatusOr<Result>& result, Decode decode, Encode encode) {
  if (!result.ok()) {
    FUZZ_CHECK(!result.status().message().empty());
    return;
  }
  const std::string json = encode(*result);
  const auto again = decode(json);
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(encode(*again) == json);
}

void checkChange(int status, std::string_view json) {
  const auto result = decodeChange(status, json);
  if (!result.ok()) {
    return;
  }
  FUZZ_CHECK((status == 200) == (result->outcome == store::ChangeOutcome::Done));
  store::OperatorChange change;
  change.action = store::NotRun{};
  (void)encodeChange(change, *result);
}

void check(uint8_t question, std::string_view json) {
  switch (question % 8) {
    case 0:
      return checkStable(decodeRecords(json), decodeRecords, encodeRecords);
    case 1:
      return checkStable(decodeRecord(json), decodeRecord, [](const RecordDetail& detail) {
        return encodeRecord(detail.record, detail.timeline, ShowResponse::Yes);
      });
    case 2:
      return checkStable(decodeAudit(json), decodeAudit, encodeAudit);
    case 3:
      return checkStable(decodeSummary(json), decodeSummary, [](const ServerSummary& summary) {
        return encodeSummary(summary.summary, summary.facts);
      });
    case 4:
      return checkChange(200, json);
    case 5:
      return checkChange(409, json);
    case 6:
      return checkStable(decodePurge(json), decodePurge,
                         [](const store::PurgeResult& result) { return encodePurge({}, result); });
    default:
      (void)decodeProblem(json);
      return checkText(json);
  }
}

}  // namespace
}  // namespace idempotency

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) {
    idempotency::check(data[0], idempotency::fuzzText(data + 1, size - 1));
  }
  return 0;
}
