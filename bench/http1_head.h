#pragma once

#include <cctype>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>

namespace idempotency::bench {

// The head of an HTTP/1.1 message: its first line and its headers, up to the empty line.
class Http1Head {
public:
  // Nothing while the head is not whole.
  static std::optional<Http1Head> find(std::string_view data) {
    const size_t end = data.find("\r\n\r\n");
    if (end == std::string_view::npos) {
      return std::nullopt;
    }
    return Http1Head(data.substr(0, end + 4));
  }

  size_t size() const { return text_.size(); }

  // The second word of the first line: a response's status, a request's path.
  std::string_view secondWord() const {
    const size_t begin = text_.find(' ') + 1;
    return text_.substr(begin, text_.find_first_of(" \r", begin) - begin);
  }

  // The value of a header; `name` in lower case.
  std::optional<std::string_view> header(std::string_view name) const {
    size_t line = text_.find("\r\n") + 2;
    while (line < text_.size()) {
      const size_t end = text_.find("\r\n", line);
      if (end - line > name.size() && text_[line + name.size()] == ':' &&
          sameName(text_.substr(line, name.size()), name)) {
        std::string_view value = text_.substr(line + name.size() + 1, end - line - name.size() - 1);
        value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
        return value;
      }
      line = end + 2;
    }
    return std::nullopt;
  }

  // Nothing if the message does not say it in this way.
  std::optional<size_t> contentLength() const {
    const auto value = header("content-length");
    size_t length = 0;
    if (!value || std::from_chars(value->begin(), value->end(), length).ptr != value->end()) {
      return std::nullopt;
    }
    return length;
  }

private:
  explicit Http1Head(std::string_view text) : text_(text) {}

  static bool sameName(std::string_view text, std::string_view lower) {
    for (size_t i = 0; i < lower.size(); ++i) {
      if (std::tolower(static_cast<unsigned char>(text[i])) != lower[i]) {
        return false;
      }
    }
    return true;
  }

  std::string_view text_;
};

}  // namespace idempotency::bench
