#pragma once

#include <string>
#include <vector>

#include "source/store/operator_store.h"

namespace idempotency::cli {

// Records, audit entries and summaries for people. Nothing in them reaches the terminal as it is:
// what is not printable is escaped.

// A row for each record.
std::string recordTable(const std::vector<store::ListedRecord>& records);

// One record: a line for each field. Of its response, only what it is.
std::string recordDetails(const store::ListedRecord& listed);

// The stored response: status, headers, body, trailers; or why it cannot be shown.
std::string responseText(const std::string& response);

// Entries about any records, and those about one record.
std::string auditTable(const std::vector<store::AuditEntry>& entries);
std::string timelineTable(const std::vector<store::AuditEntry>& entries);

// Parts of a summary. The tables are empty if they have no row.
std::string statesText(const store::Summary& summary);
std::string unsettledTable(const std::vector<store::UnsettledUse>& unsettled);
std::string tenantTable(const store::Summary& summary);

// All of it.
std::string summaryText(const store::Summary& summary);

}  // namespace idempotency::cli
