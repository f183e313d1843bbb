#pragma once

#include <optional>

#include "source/protocol/record.h"
#include "source/store/audit.h"
#include "source/store/operator_store.h"
#include "source/store/record.h"

namespace idempotency::store {

// Whether an operator may do this to a record that was found like this (none: there is no record).
//
//   state                                  completed   not run   free   bust   ask again, give up
//   in progress, lease alive                   –          –        –      –            –
//   in progress, lease expired                yes        yes      yes     –            –
//   unknown                                   yes        yes      yes     –           yes
//   failed, retryable                          –          –       yes    yes           –
//   completed, expired                         –          –        –     yes           –
//
// A request whose lease is alive is running: only its own ending counts. What may have run is never
// deleted as a result: the operator must say what became of it.
[[nodiscard]] ChangeOutcome judgeChange(const OperatorAction& action, protocol::Attempt seen,
                                        const std::optional<Record>& found);

// What the audit calls it.
[[nodiscard]] AuditAction auditAction(const OperatorAction& action);

// last_error of a record that an operator has settled as not run.
inline constexpr std::string_view ResolvedNotRunError = "resolved_not_run";

}  // namespace idempotency::store
