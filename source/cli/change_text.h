#pragma once

#include <string>

#include "source/store/operator_store.h"

namespace idempotency::cli {

// What a change means for the clients, in sentences.
std::string consequence(const store::OperatorAction& action);

// Why a change was not made, or would not be. REQUIRES: the outcome is not Done.
std::string refusal(const store::OperatorAction& action, const store::ChangeResult& result);

}  // namespace idempotency::cli
