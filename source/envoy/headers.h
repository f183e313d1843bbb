#pragma once

#include <optional>
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

  // All fields in order, names in lower case, pseudo headers among them.
  std::vector<Field> all() const {
    std::vector<Field> fields(
        raw::envoy_dynamic_module_callback_http_get_headers_size(stream_, map_));
    if (!fields.empty() &&
        !raw::envoy_dynamic_module_callback_http_get_headers(stream_, map_, fields.data())) {
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

private:
  raw::StreamPtr stream_;
  HeaderMap map_;
};

}  // namespace idempotency::envoy
