#pragma once

#include <array>
#include <curl/curl.h>
#include <memory>
#include <string>
#include <variant>

#include <absl/status/statusor.h>

#include "source/operator_client/access.h"
#include "source/operator_client/base_url.h"

namespace idempotency::operator_client {

struct HttpAnswer {
  int status = 0;
  std::string media_type;  // In lower case, without parameters; empty: the server names none.
  std::string body;
};

// There is no answer, or none that can be used.
struct NoAnswer {
  std::string reason;               // Of one line. Shows nothing of the request.
  bool perhaps_carried_out = true;  // False: the server certainly did not get the request.
  bool bad_file = false;            // A file of ApiAccess cannot be used.
};

// The first alternative is the one that promises nothing.
using HttpResult = std::variant<NoAnswer, HttpAnswer>;

// Asks one server by HTTP/1.1, with libcurl. Knows no proxy, whatever the environment says; follows
// no redirect; reads no file but those of ApiAccess and the system's certificates; and takes no
// more than a bounded answer within a bounded time. One thread at a time; every call blocks.
class HttpClient {
public:
  // Connects to nothing yet. InvalidArgument: the access cannot be used.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<HttpClient>> create(const ApiAccess& access);
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // The path is that behind the base URL; it may have a query.
  HttpResult get(const std::string& path);
  // Sends the request once: never again after the server may have got it.
  HttpResult post(const std::string& path, const std::string& json);

  const BaseUrl& base() const { return base_; }

private:
  struct FreeHandle {
    void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  };
  struct FreeList {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };
  using Handle = std::unique_ptr<CURL, FreeHandle>;
  using Fields = std::unique_ptr<curl_slist, FreeList>;

  HttpClient(BaseUrl base, Handle handle, size_t max_answer_bytes)
      : base_(std::move(base)), handle_(std::move(handle)), max_answer_bytes_(max_answer_bytes) {}

  absl::Status setUp(const ApiAccess& access);
  absl::Status setFields(const ApiAccess& access);
  HttpResult exchange(const std::string& path);

  const BaseUrl base_;
  // The lists belong to requests of the handle, which goes first.
  Fields get_fields_;
  Fields post_fields_;
  std::array<char, CURL_ERROR_SIZE> error_{};
  const Handle handle_;
  const size_t max_answer_bytes_;
};

}  // namespace idempotency::operator_client
