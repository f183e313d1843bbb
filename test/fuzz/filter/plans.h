#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

// The configs that requests meet, and what of them the ledger must know.
namespace idempotency::fuzz {

inline constexpr std::chrono::milliseconds Lease{1000};  // The shortest there is.
inline constexpr std::chrono::milliseconds CompletionTimeout{300};
inline constexpr std::chrono::milliseconds Life{20'000};
inline constexpr const char* Tenant = "acme";
inline constexpr const char* Operation = "pay";

// One identity for all routes: so their requests meet.
struct RoutePlan {
  const char* name;
  const char* fields = "";  // Of its policy, besides those that all have; with a comma before each.
  bool off = false;         // The route has no config: nothing is protected.
  bool optional = false;    // Requests without a key pass.
  bool retries_lease = false;  // A request whose lease ran out may run again.
  bool fails_open = false;     // Runs unprotected where the store fails.
  bool any_request = false;    // Every request of a key counts as the same.
  bool secret = false;         // Responses are not stored.
  bool gone = false;           // A key past its life does not run again.
  uint64_t max_request = 1000;
  uint64_t max_response = 1000;
};
std::span<const RoutePlan> routePlans();
std::string routeJson(const RoutePlan& plan);

// Configs with different settings have backends of their own, over one database: as if they were
// of different Envoys.
struct ConfigPlan {
  const char* name;
  const char* fields;         // Besides store and tenant; with a comma before each.
  size_t most_in_flight = 0;  // It has limits; 0: none that matter.
  bool maintains = false;     // Sweeps and reaps.
};
std::span<const ConfigPlan> configPlans();
std::string configJson(const ConfigPlan& plan);

}  // namespace idempotency::fuzz
