#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "source/protocol/problem.h"
#include "source/protocol/record.h"
#include "test/fuzz/filter/plans.h"

namespace idempotency::fuzz {

inline constexpr size_t KeyCount = 3;
std::string keyName(size_t key);

// What is unusual about a request.
enum class Quirk : uint8_t {
  None,
  NoBody,  // It ends with its headers.
  NoKey,
  BadKey,
  TwoKeys,
  NoTenant,
  Get,
  Patch,
  Upgrade,
  Grpc,
  Forged,         // With headers that only the filter writes.
  LongAnnounced,  // Its length, more than any route takes, is in its headers.
  Denied,         // A filter before ours answers it: ours never sees its headers.
};
inline constexpr size_t QuirkCount = 13;

// What a client sends, but for the body.
struct RequestPlan {
  const RoutePlan* route = nullptr;
  size_t key = 0;
  Quirk quirk = Quirk::None;
  protocol::FieldList headers;
  std::string method;
  std::string content_type;
  protocol::Identity identity;
  bool covered = false;                      // The filter must claim it before it goes on.
  std::optional<protocol::Problem> refusal;  // What its headers alone must get.
};
RequestPlan planRequest(const RoutePlan& route, size_t key, Quirk quirk);

// What a record's fingerprint is of.
struct RequestText {
  bool any_request = false;  // By its route every request is the same.
  std::string method;
  std::string content_type;
  std::string body;
};
bool sameRequest(const RequestText& a, const RequestText& b);

// Pieces of which bodies are made: together they may be JSON, the same JSON in other words, or not.
inline constexpr size_t PieceCount = 8;
std::string requestPiece(size_t piece);

}  // namespace idempotency::fuzz
