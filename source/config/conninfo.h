#pragma once

#include <string_view>

namespace idempotency::config {

// What a libpq connection string (words or URI) holds, as far as a config must know. Never keeps or
// shows it.
enum class ConninfoContent {
  Malformed,  // Not a connection string.
  Password,   // Holds a password (`password`, `sslpassword`, or in the URI's user part).
  Clean,
};

// Reads the string as libpq does, but judges only its form: libpq itself checks the words when it
// connects.
[[nodiscard]] ConninfoContent inspectConninfo(std::string_view text);

}  // namespace idempotency::config
