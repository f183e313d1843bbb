#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace idempotency::operator_client {

// A stored response with its base64 and the rest of a record, and no more.
inline constexpr size_t MaxAnswerBytes = size_t{128} << 20;

// Where the operators' API is, and how to get in. Files are PEM.
struct ApiAccess {
  std::string url;          // As an operator writes it: see BaseUrl.
  std::string unix_socket;  // Empty: by TCP.
  // "Name: value", sent with every request. What they hold is secret.
  std::vector<std::string> headers;
  std::string ca_file;                        // The only authorities; empty: those of the system.
  std::string certificate;                    // Of the client; empty: none.
  std::string certificate_key;                // Empty: in the file of the certificate.
  std::chrono::milliseconds timeout{10'000};  // Of each request, with connecting.
  size_t max_answer_bytes = MaxAnswerBytes;
};

}  // namespace idempotency::operator_client
