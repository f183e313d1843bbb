#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "source/envoy/types.h"

namespace idempotency::envoy {

// One of a stream's four header maps. A view: worker thread only, dead with the stream. The texts
// that it returns belong to Envoy and live until the hook returns or until the same map is changed:
// copy what must last. A map that does not exist now (the response's during the request, say) is
// empty and takes no changes.
class Headers {
public:
  Headers(raw::StreamPtr stream, HeaderMap map) : stream_(stream), map_(map) {}

  // The index-th value of a header, in the order of its lines.
  std::optional<std::string_view> get(std::string_view name, size_t index = 0) const {
    raw::Bytes value{nullptr, 0};
    if (!raw::envoy_dynamic_module_callback_http_get_header(stream_, map_, toBytes(name), &value,
                                                            index, nullptr)) {
      return std::nullopt;
    }
    return toView(value);
  }

  // How many lines of that name there are.
  size_t count(std::string_view name) const {
    raw::Bytes value{nullptr, 0};
    size_t total = 0;
    raw::envoy_dynamic_module_callback_http_get_header(stream_, map_, toBytes(name), &value, 0,
                                                       &total);
    return total;
  }

  size_t size() const {
    return raw::envoy_dynamic_module_callback_http_get_headers_size(stream_, map_);
  }
  // All fields in order, names in lower case, pseudo headers among them. `fields` has room for
  // size() of them. False: there is no such map.
  bool copyTo(std::span<Field> fields) const {
    return !fields.empty() &&
           raw::envoy_dynamic_module_callback_http_get_headers(stream_, map_, fields.data());
  }
  std::vector<Field> all() const {
    std::vector<Field> fields(size());
    if (!copyTo(fields)) {
      fields.clear();
    }
    return fields;
  }

  // Appends a line. False when nothing was added: the map does not exist, or the value is empty,
  // which Envoy refuses here.
  bool add(std::string_view name, std::string_view value) const {
    return raw::envoy_dynamic_module_callback_http_add_header(stream_, map_, toBytes(name),
                                                              toBytes(value));
  }

  // Replaces all lines of that name by one. False as for add(); an empty value would mean removal
  // to Envoy, so it is refused here: say remove().
  bool set(std::string_view name, std::string_view value) const {
    return !value.empty() && raw::envoy_dynamic_module_callback_http_set_header(
                                 stream_, map_, toBytes(name), toBytes(value));
  }

  bool remove(std::string_view name) const {
    return raw::envoy_dynamic_module_callback_http_set_header(stream_, map_, toBytes(name),
                                                              raw::Bytes{nullptr, 0});
  }
  // Names in lower case. Looks first, since most often none is there: to remove what is not there
  // costs Envoy as much.
  void remove(std::initializer_list<std::string_view> names) const;

private:
  raw::StreamPtr stream_;
  HeaderMap map_;
};

// The lines of a map as they are now, all read at once: asking Envoy for each by name costs more
// from the second on. Texts as those of Headers.
class HeaderLines {
public:
  explicit HeaderLines(const Headers& headers) {
    const size_t size = headers.size();
    if (size > few_.size()) {
      many_.resize(size);
    }
    const std::span<Field> room = many_.empty() ? std::span(few_).first(size) : std::span(many_);
    lines_ = headers.copyTo(room) ? room : std::span<const Field>();
  }
  HeaderLines(const HeaderLines&) = delete;
  HeaderLines& operator=(const HeaderLines&) = delete;

  // As Headers::get() and count(), but the name is in lower case.
  std::optional<std::string_view> get(std::string_view name, size_t index = 0) const {
    for (const Field& line : lines_) {
      if (line.nameView() == name && index-- == 0) {
        return line.valueView();
      }
    }
    return std::nullopt;
  }
  size_t count(std::string_view name) const {
    size_t total = 0;
    for (const Field& line : lines_) {
      total += line.nameView() == name ? 1 : 0;
    }
    return total;
  }

private:
  std::array<Field, 32> few_;  // As many as most requests have.
  std::vector<Field> many_;
  std::span<const Field> lines_;
};

inline void Headers::remove(std::initializer_list<std::string_view> names) const {
  const HeaderLines lines(*this);
  for (const std::string_view name : names) {
    if (lines.get(name).has_value()) {
      remove(name);
    }
  }
}

}  // namespace idempotency::envoy
