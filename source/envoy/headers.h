#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "source/envoy/types.h"

namespace idempotency::envoy {

// One of a stream's four header maps. A view: worker thread only, invalid after the stream. The
// texts that it returns belong to Envoy and stay valid until the hook returns or the same map is
// changed: copy what must last longer. A map that does not exist at the moment (for example, the
// response's during the request) is empty and cannot be changed.
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

  // The number of lines with that name.
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
  // All fields in order, with names in lower case, including pseudo-headers. `fields` has room for
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

  // Appends a line. False if nothing was added: the map does not exist, or the value is empty,
  // which Envoy refuses here.
  bool add(std::string_view name, std::string_view value) const {
    return raw::envoy_dynamic_module_callback_http_add_header(stream_, map_, toBytes(name),
                                                              toBytes(value));
  }

  // Replaces all lines of that name by one. False as for add(). For Envoy an empty value means
  // removal, so it is refused here: call remove().
  bool set(std::string_view name, std::string_view value) const {
    return !value.empty() && raw::envoy_dynamic_module_callback_http_set_header(
                                 stream_, map_, toBytes(name), toBytes(value));
  }

  bool remove(std::string_view name) const {
    return raw::envoy_dynamic_module_callback_http_set_header(stream_, map_, toBytes(name),
                                                              raw::Bytes{nullptr, 0});
  }
  // Names in lower case, not views of this map. Looks for each name first, because usually none is
  // present, and removing an absent name costs Envoy just as much.
  void remove(std::span<const std::string_view> names) const;
  void remove(std::initializer_list<std::string_view> names) const {
    remove(std::span(names.begin(), names.size()));
  }

private:
  raw::StreamPtr stream_;
  HeaderMap map_;
};

// The lines of a map at this moment, all read at once. From the second name on, this is cheaper
// than asking Envoy for each name. Texts as in Headers.
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
  // All of them, in order.
  std::span<const Field> all() const { return lines_; }
  size_t count(std::string_view name) const {
    size_t total = 0;
    for (const Field& line : lines_) {
      total += line.nameView() == name ? 1 : 0;
    }
    return total;
  }

private:
  std::array<Field, 32> few_;  // Enough for most requests.
  std::vector<Field> many_;
  std::span<const Field> lines_;
};

inline void Headers::remove(std::span<const std::string_view> names) const {
  std::vector<std::string_view> present;
  {
    const HeaderLines lines(*this);
    std::copy_if(names.begin(), names.end(), std::back_inserter(present),
                 [&](std::string_view name) { return lines.get(name).has_value(); });
  }
  // From the first removal on, the texts of the lines are invalid.
  for (const std::string_view name : present) {
    remove(name);
  }
}

}  // namespace idempotency::envoy
