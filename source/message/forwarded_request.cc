#include "source/message/forwarded_request.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <fmt/format.h>
#include <iterator>

#include "source/http/header_names.h"
#include "source/message/headers.h"

namespace idempotency::message {
namespace {

// They describe the connection that the request came on, or the body's framing there.
constexpr std::array<std::string_view, 8> OfTheConnection = {
    "connection", "content-length",   "host",    "http2-settings",
    "keep-alive", "proxy-connection", "upgrade", "transfer-encoding",
};

bool isForwarded(std::string_view name) {
  return !name.starts_with(':') &&
         std::find(OfTheConnection.begin(), OfTheConnection.end(), name) == OfTheConnection.end();
}

std::string_view valueOf(std::span<const protocol::FieldView> fields, std::string_view name) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const auto& field) { return field.first == name; });
  return found == fields.end() ? std::string_view() : found->second;
}

void appendField(std::string& text, std::string_view name, std::string_view value) {
  text.append(name).append(": ").append(value).append("\r\n");
}

size_t bytesOf(std::span<const std::string_view> pieces) {
  size_t size = 0;
  for (const std::string_view piece : pieces) {
    size += piece.size();
  }
  return size;
}

size_t bytesOf(std::span<const protocol::FieldView> fields) {
  constexpr size_t Separators = 4;
  size_t size = 0;
  for (const auto& [name, value] : fields) {
    size += name.size() + value.size() + Separators;
  }
  return size;
}

bool areSafe(std::span<const protocol::FieldView> fields) {
  return std::all_of(fields.begin(), fields.end(), [](const auto& field) {
    return field.first.starts_with(':') || isSafeField(field.first, field.second);
  });
}

// One word of the first line.
bool isWord(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != '\x7f';
  });
}

bool isAscii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}

void appendEscaped(std::string& text, std::string_view path) {
  for (const char c : path) {
    if (isAscii(c)) {
      text += c;
    } else {
      fmt::format_to(std::back_inserter(text), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
}

bool isSafe(const ForwardedRequest& request) {
  return isWord(valueOf(request.headers, ":method")) && isWord(valueOf(request.headers, ":path")) &&
         isSafeField("host", valueOf(request.headers, ":authority")) && areSafe(request.headers) &&
         areSafe(request.trailers);
}

}  // namespace

bool needsEscapes(std::string_view path) {
  return !std::all_of(path.begin(), path.end(), isAscii);
}

std::string serializeForRun(const ForwardedRequest& request, std::string_view run) {
  if (!isSafe(request)) {
    return {};
  }
  constexpr size_t OwnLines = 256;
  const size_t body_size = bytesOf(request.body);
  const bool has_length = !valueOf(request.headers, "content-length").empty();
  const bool chunked = !request.trailers.empty() || (!has_length && !request.ends_with_headers);
  std::string text;
  text.reserve(bytesOf(request.headers) + body_size + bytesOf(request.trailers) + OwnLines);
  text.append(valueOf(request.headers, ":method")).append(" ");
  appendEscaped(text, valueOf(request.headers, ":path"));
  text.append(" HTTP/1.1\r\n");
  appendField(text, "host", valueOf(request.headers, ":authority"));
  for (const auto& [name, value] : request.headers) {
    if (isForwarded(name)) {
      appendField(text, name, value);
    }
  }
  appendField(text, http::RunHeader, run);
  appendField(text, "connection", "close");
  if (chunked) {
    appendField(text, "transfer-encoding", "chunked");
  } else if (has_length) {
    appendField(text, "content-length", fmt::format_int(body_size).c_str());
  }
  text.append("\r\n");
  if (chunked && body_size > 0) {
    fmt::format_to(std::back_inserter(text), "{:x}\r\n", body_size);
  }
  for (const std::string_view piece : request.body) {
    text.append(piece);
  }
  if (chunked) {
    text.append(body_size > 0 ? "\r\n0\r\n" : "0\r\n");
    for (const auto& [name, value] : request.trailers) {
      appendField(text, name, value);
    }
    text.append("\r\n");
  }
  return text;
}

}  // namespace idempotency::message
