#pragma once

#include <string>
#include <string_view>

#include "source/operator_api/json_writer.h"
#include "source/store/operator_store.h"

// What a store answers, as JSON. docs/operator-api.yaml describes it; decode.h reads it back.
namespace idempotency::operator_api {

// What the API adds to a store's summary.
struct ServerFacts {
  bool read_only = false;
  bool operator==(const ServerFacts&) const = default;
};

// A stored response shows its headers and its body, or only that it exists and how large it is.
enum class ShowResponse : bool { No, Yes };

void writeRecord(std::string_view name, const store::ListedRecord& record, JsonWriter& json);

std::string encodeRecords(const store::RecordPage& page);
// One record with its stored response and what the audit says about its key.
std::string encodeRecord(const store::ListedRecord& record, const store::AuditPage& timeline,
                         ShowResponse show);
std::string encodeAudit(const store::AuditPage& page);
std::string encodeSummary(const store::Summary& summary, const ServerFacts& facts);
// Of a change that is Done. The other outcomes are problems: see problem.h.
std::string encodeChange(const store::OperatorChange& change, const store::ChangeResult& result);
std::string encodePurge(const store::Purge& purge, const store::PurgeResult& result);

}  // namespace idempotency::operator_api
