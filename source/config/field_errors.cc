#include "source/config/field_errors.h"

#include <fmt/format.h>

namespace idempotency::config {
namespace {

constexpr size_t MaxShown = 10;
constexpr size_t MaxQuoted = 64;

}  // namespace

void FieldErrors::add(std::string_view path, std::string_view given, std::string_view expected) {
  messages_.push_back(fmt::format("{}: got {}; expected {}", path, given, expected));
}

void FieldErrors::add(std::string_view path, std::string_view text) {
  messages_.push_back(fmt::format("{}: {}", path, text));
}

void FieldErrors::append(const FieldErrors& others) {
  messages_.insert(messages_.end(), others.messages_.begin(), others.messages_.end());
}

absl::Status FieldErrors::status() const {
  if (messages_.empty()) {
    return absl::OkStatus();
  }
  std::string text;
  for (size_t i = 0; i < messages_.size() && i < MaxShown; ++i) {
    text += (i == 0 ? "" : " | ") + messages_[i];
  }
  if (messages_.size() > MaxShown) {
    text += fmt::format(" | and {} more", messages_.size() - MaxShown);
  }
  return absl::InvalidArgumentError(text);
}

std::string quoteForError(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text.substr(0, MaxQuoted)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '"' || c == '\\') {
      quoted += fmt::format("\\x{:02x}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + (text.size() > MaxQuoted ? "\"…" : "\"");
}

std::string joinPath(std::string_view parent, std::string_view name) {
  return parent.empty() ? std::string(name) : fmt::format("{}.{}", parent, name);
}

std::string indexPath(std::string_view parent, size_t index) {
  return fmt::format("{}[{}]", parent, index);
}

}  // namespace idempotency::config
