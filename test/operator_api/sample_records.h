#pragma once

#include <string>

#include "source/store/operator_store.h"

namespace idempotency::operator_api {

// Names of the kind that need care: quotes, markup, and bytes that are no UTF-8.
inline const protocol::Identity HostileIdentity{"<script>\"acme\"", "pay\xff",
                                                std::string("k\0\xc3", 3)};

// Largest attempt: more digits than JavaScript's numbers keep.
inline constexpr protocol::Attempt LargestAttempt = 9'223'372'036'854'775'807;

store::ListedRecord unknownRecord();
// With a stored response; its body is no text.
store::ListedRecord completedRecord();
store::AuditPage sampleTimeline();

}  // namespace idempotency::operator_api
