#pragma once

#include "source/cli/command.h"

namespace idempotency::cli {

// `audit list`.
extern const Command AuditListCommand;

}  // namespace idempotency::cli
