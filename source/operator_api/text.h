#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "source/protocol/policy.h"
#include "source/protocol/record.h"
#include "source/store/record.h"

// How values are written for operators: in the API, on the page and by idempotencyctl.
namespace idempotency::operator_api {

// Bytes as text: each byte that is not part of a UTF-8 character becomes U+FFFD.
std::string shownText(std::string_view bytes);

// RFC 3339 in UTC with milliseconds: 2026-02-03T04:05:06.789Z.
std::string formatTime(store::StoreTime time);
[[nodiscard]] std::optional<store::StoreTime> parseTime(std::string_view text);

// "in_progress" and so on.
std::string_view stateName(protocol::RecordState state);
[[nodiscard]] std::optional<protocol::RecordState> parseState(std::string_view name);

std::string_view tombstoneName(protocol::Tombstone tombstone);
[[nodiscard]] std::optional<protocol::Tombstone> parseTombstone(std::string_view name);

std::string_view leaseExpiredName(protocol::LeaseExpired policy);

// In decimal digits without leading zeros: programs in JavaScript would round the number.
[[nodiscard]] std::optional<protocol::Attempt> parseAttempt(std::string_view digits);

// The whole text is a decimal number.
[[nodiscard]] std::optional<int64_t> parseNumber(std::string_view digits);

}  // namespace idempotency::operator_api
