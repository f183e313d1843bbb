#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "source/store/operator_store.h"

namespace idempotency::test {

// What an operators' store in memory holds, and what it is to do. Shared by all that are open; any
// thread.
struct OperatorMemory {
  std::mutex mutex;
  std::map<protocol::Identity, store::Record> records;
  std::vector<store::AuditEntry> audit;  // Oldest first.
  std::vector<std::string> calls;        // Names of the methods, in their order.
  int opened = 0;
  absl::Status open_error;                         // OK: it opens.
  std::function<absl::Status()> before_call = {};  // May block; an error is the call's result.
};

// What openOperatorStore() of a test binary gives out.
OperatorMemory& operatorMemory();
// Forgets everything.
void resetOperatorMemory();

// A store on a memory of its own or on the shared one.
std::unique_ptr<store::OperatorStore> makeMemoryOperatorStore(OperatorMemory& memory);

}  // namespace idempotency::test
