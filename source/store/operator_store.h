#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

#include "source/protocol/ending.h"
#include "source/protocol/record.h"
#include "source/store/record.h"
#include "source/store/store.h"

namespace idempotency::store {

// --- What operators look at

// A response that an operators' API has, but does not show.
struct WithheldResponse {
  std::optional<uint64_t> body_bytes;  // None: the response cannot be read.
};

struct ListedRecord {
  protocol::Identity identity;
  Record record;  // list() leaves its response empty.
  // In place of a response: only from find() of a store behind an operators' API.
  std::optional<WithheldResponse> withheld_response{};
};

// Every field that is set must match.
struct RecordFilter {
  std::vector<protocol::RecordState> states;  // Empty: all.
  std::optional<std::string> tenant;
  std::optional<std::string> operation;
  std::optional<std::string> key;
  std::optional<std::string> key_hash;  // As keyHash() makes it, for the access log.
  std::optional<protocol::Attempt> attempt;
  std::optional<std::string> error;                  // last_error, exactly.
  std::optional<std::chrono::milliseconds> min_age;  // Claimed at least this long ago.
  bool dead_letters_only = false;
};

struct RecordPage {
  std::vector<ListedRecord> records;  // In the order of their identities, byte by byte.
  bool more = false;                  // Continue after the last of them.
};

struct AuditFilter {
  std::optional<std::string> tenant;
  std::optional<std::string> operation;
  std::optional<std::string> key;
  std::optional<protocol::Attempt> attempt;
};

struct AuditEntry {
  int64_t id = 0;
  StoreTime at{};
  std::string actor;
  std::string action;
  std::optional<protocol::Identity> identity;  // None: the entry is about many records.
  std::optional<protocol::Attempt> attempt;
  uint64_t records = 0;  // How many records it is about.
  std::string detail;
};

struct AuditPage {
  std::vector<AuditEntry> entries;  // Newest first.
  bool more = false;                // Continue before the last of them.
};

// The records of an operation whose outcome is unknown.
struct UnsettledUse {
  std::string operation;
  uint64_t records = 0;                 // Dead letters included.
  uint64_t dead_letters = 0;            // Of these.
  std::chrono::milliseconds oldest{0};  // How long the oldest one has been unknown.
};
struct TenantUse {
  std::string tenant;
  uint64_t records = 0;
  std::chrono::milliseconds oldest{0};
};

struct Summary {
  std::vector<UnsettledUse> unsettled;  // At most MaxSummaryRows, those with most records first.
  // Who waits for an outcome, the longest first. Counted among the oldest unsettled records only.
  std::vector<TenantUse> tenants;
  bool tenants_complete = true;
  // How many records there are in each state. Counted among a limited number of records.
  std::map<protocol::RecordState, uint64_t> states;
  bool states_complete = true;
  // The process that runs the background jobs; empty: none does.
  std::string leader;
  int schema_version = 0;
  bool read_only = false;  // The operators' API that answers refuses all changes.
  StoreTime now{};
};
inline constexpr size_t MaxSummaryRows = 100;

// --- What operators do. The rules are in operator_rules.h.

// It did not run, and never will: the next request with the key runs.
struct NotRun {};
// The key is free again, also for another request.
struct Free {};
// The stored result is deleted: the next request with the key runs again.
struct Bust {};
// The reconciler asks the upstream again after this time. An operator starts all over: the record
// is no dead letter any more, and its tries count from 0.
struct AskAgain {
  std::chrono::milliseconds after{0};
  bool start_over = false;
};
// The reconciler gives up: an operator has to settle the record.
struct GiveUp {};
// Completed: it ran, and this is its result.
using OperatorAction = std::variant<protocol::Completed, NotRun, Free, Bust, AskAgain, GiveUp>;

struct OperatorChange {
  ClaimRef seen;  // The record, and the attempt that the operator saw in it.
  OperatorAction action;
  std::string actor;     // Who does it. Audited.
  std::string reason;    // Why. Audited.
  bool dry_run = false;  // Changes nothing, and says what would happen.
};

enum class ChangeOutcome : uint8_t {
  Done,     // Durable and audited; with dry_run: would be.
  Absent,   // There is no such record.
  Stale,    // Another attempt has claimed the record since the operator saw it.
  Refused,  // The record's state does not allow it.
};
struct ChangeResult {
  ChangeOutcome outcome = ChangeOutcome::Refused;
  std::optional<Record> found;  // As it was before; without its response.
};

struct Purge {
  std::string tenant;
  std::string actor;
  std::string reason;
  bool dry_run = false;
};
struct PurgeResult {
  uint64_t records = 0;        // Deleted, with their responses.
  uint64_t unsettled = 0;      // Of these: their outcomes were unknown.
  uint64_t running = 0;        // Left, because their requests are running.
  uint64_t audit_entries = 0;  // Pseudonymised.
  bool more = false;           // The limit was reached: call again.
};

// --- What the reconciler does

// Operations by name: these, or all but these.
struct OperationSet {
  std::vector<std::string> names;
  bool all_but = false;
};

// A record whose outcome is unknown, and whose upstream is to be asked now.
struct DueRecord {
  ClaimRef claim;
  uint32_t tries = 0;                      // How often it has been asked, this time included.
  std::chrono::milliseconds claim_age{0};  // Since the attempt claimed it.
};

// A store as its operators use it: a connection of its own, often with a role of its own, so that
// nothing here delays requests. One thread at a time; every call blocks until the store answers or
// its time limit has passed. An error is for a person: what failed, and whether a change may have
// been made.
class OperatorStore {
public:
  virtual ~OperatorStore() = default;

  // At most `limit` records, after this identity.
  virtual absl::StatusOr<RecordPage> list(const RecordFilter& filter,
                                          const std::optional<protocol::Identity>& after,
                                          uint32_t limit) = 0;
  // With its response, if it has one.
  virtual absl::StatusOr<std::optional<ListedRecord>> find(const protocol::Identity& identity) = 0;
  // At most `limit` entries, older than `before`.
  virtual absl::StatusOr<AuditPage> audit(const AuditFilter& filter, std::optional<int64_t> before,
                                          uint32_t limit) = 0;
  // Changes the record if it is still as the operator saw it, and writes an audit entry in the same
  // transaction.
  virtual absl::StatusOr<ChangeResult> change(const OperatorChange& change) = 0;
  // Deletes at most `limit` records of the tenant and their responses, whatever their state, unless
  // their requests are running. In the tenant's audit entries, replaces tenant and key by their
  // hashes and removes details; then writes an entry of its own.
  virtual absl::StatusOr<PurgeResult> purge(const Purge& purge, uint32_t limit) = 0;
  virtual absl::StatusOr<Summary> summary() = 0;
  // Summary::unsettled alone, which costs little: for statistics.
  virtual absl::StatusOr<std::vector<UnsettledUse>> unsettled() = 0;

  // For the reconciler. At most `limit` unknown records of these operations that are no dead
  // letters and whose time has come, the longest due first; a record that was never scheduled is
  // due at once. Counts the try, and postpones the next one by `hold`, in which the caller calls
  // change(): no other process asks in the meantime.
  virtual absl::StatusOr<std::vector<DueRecord>> takeDue(const OperationSet& operations,
                                                         std::chrono::milliseconds hold,
                                                         uint32_t limit) = 0;
};

}  // namespace idempotency::store
