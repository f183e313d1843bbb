#include "source/operator_client/http_client.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <string_view>
#include <utility>

#include <absl/status/status.h>

#include "source/http/header_names.h"
#include "source/operator_client/server_text.h"

namespace idempotency::operator_client {
namespace {

// Of all header lines of an answer, interim answers included.
constexpr size_t MaxHeadBytes = size_t{256} << 10;
constexpr char Accept[] = "Accept: application/json, application/problem+json";
constexpr char JsonBody[] = "Content-Type: application/json";

// What comes of an answer, within its bounds.
struct Sink {
  size_t max_body_bytes;
  size_t head_bytes = 0;
  std::string body{};
  bool is_full = false;
};

// libcurl calls these. Any other number than that of the bytes ends the transfer. No exception may
// pass through its C code.
size_t takeHead(char* /*data*/, size_t size, size_t count, void* user) {
  auto& sink = *static_cast<Sink*>(user);
  sink.head_bytes += size * count;
  sink.is_full = sink.head_bytes > MaxHeadBytes;
  return sink.is_full ? 0 : size * count;
}

size_t takeBody(char* data, size_t size, size_t count, void* user) {
  auto& sink = *static_cast<Sink*>(user);
  const size_t bytes = size * count;
  sink.is_full = bytes > sink.max_body_bytes - sink.body.size();
  if (sink.is_full) {
    return 0;
  }
  try {
    sink.body.append(data, bytes);
  } catch (...) {  // No memory.
    return 0;
  }
  return bytes;
}

// Sets options of a handle; after one that fails, no more.
class Options {
public:
  explicit Options(CURL* handle) : handle_(handle) {}

  template <class Value>
  void set(CURLoption option, Value value) {
    if (result_ == CURLE_OK) {
      result_ = curl_easy_setopt(handle_, option, value);
    }
  }
  void setText(CURLoption option, const std::string& value) {
    if (!value.empty()) {
      set(option, value.c_str());
    }
  }
  CURLcode result() const { return result_; }

private:
  CURL* const handle_;
  CURLcode result_ = CURLE_OK;
};

// The shortest way, without anything that the environment could name.
void setConnection(const ApiAccess& access, Options& options) {
  const long timeout = static_cast<long>(access.timeout.count());
  options.set(CURLOPT_NOSIGNAL, 1L);
  options.set(CURLOPT_TIMEOUT_MS, timeout);
  options.set(CURLOPT_CONNECTTIMEOUT_MS, timeout);
  options.set(CURLOPT_PROTOCOLS_STR, "http,https");
  options.set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  options.set(CURLOPT_FOLLOWLOCATION, 0L);
  options.set(CURLOPT_PROXY, "");
  options.set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  options.set(CURLOPT_PATH_AS_IS, 1L);
  options.set(CURLOPT_USERAGENT, "idempotencyctl");
  options.setText(CURLOPT_UNIX_SOCKET_PATH, access.unix_socket);
}

void setTls(const ApiAccess& access, Options& options) {
  options.set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  options.set(CURLOPT_SSL_VERIFYPEER, 1L);
  options.set(CURLOPT_SSL_VERIFYHOST, 2L);
  if (!access.ca_file.empty()) {
    options.setText(CURLOPT_CAINFO, access.ca_file);
    options.set(CURLOPT_CAPATH, static_cast<char*>(nullptr));
  }
  options.setText(CURLOPT_SSLCERT, access.certificate);
  options.setText(CURLOPT_SSLKEY, access.certificate_key);
  // Otherwise OpenSSL asks at the terminal for the password of an encrypted key.
  options.set(CURLOPT_KEYPASSWD, "");
}

std::string_view hint(CURLcode code) {
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
      return ". --ca-file names the authority to trust";
    case CURLE_SSL_CACERT_BADFILE:
      return ". See --ca-file";
    case CURLE_SSL_CERTPROBLEM:
      return ". See --cert and --cert-key";
    case CURLE_OPERATION_TIMEDOUT:
      return ". --timeout sets how long to wait";
    default:  // A number of libcurl, which has about a hundred.
      return "";
  }
}

std::string reasonOf(CURLcode code, const char* detail, const Sink& sink) {
  if (sink.is_full) {
    return fmt::format("the answer is too long: more than {} bytes, or than {} of headers",
                       sink.max_body_bytes, MaxHeadBytes);
  }
  const std::string text = serverText(*detail == '\0' ? curl_easy_strerror(code) : detail);
  return text + std::string(hint(code));
}

std::string mediaType(CURL* handle) {
  const char* text = nullptr;
  if (curl_easy_getinfo(handle, CURLINFO_CONTENT_TYPE, &text) != CURLE_OK || text == nullptr) {
    return {};
  }
  std::string_view type(text);
  type = type.substr(0, type.find(';'));
  return http::toLower(type.substr(0, type.find_last_not_of(" \t") + 1));
}

// A connection alone, even one that is verified, has told the server nothing to do.
bool hasSent(CURL* handle) {
  long bytes = 0;
  return curl_easy_getinfo(handle, CURLINFO_REQUEST_SIZE, &bytes) != CURLE_OK || bytes > 0;
}

template <class Fields>
bool append(const char* field, Fields& fields) {
  curl_slist* const longer = curl_slist_append(fields.get(), field);
  if (longer == nullptr) {
    return false;
  }
  // The list's first element stays the same once there is one.
  (void)fields.release();
  fields.reset(longer);
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpClient>> HttpClient::create(const ApiAccess& access) {
  static const CURLcode Ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  auto base = parseBaseUrl(access.url);
  if (!base.ok()) {
    return base.status();
  }
  Handle handle(Ready == CURLE_OK ? curl_easy_init() : nullptr);
  if (handle == nullptr) {
    return absl::ResourceExhaustedError("libcurl cannot start");
  }
  std::unique_ptr<HttpClient> client(
      new HttpClient(*std::move(base), std::move(handle), access.max_answer_bytes));
  if (const absl::Status status = client->setUp(access); !status.ok()) {
    return status;
  }
  return client;
}

absl::Status HttpClient::setUp(const ApiAccess& access) {
  Options options(handle_.get());
  options.set(CURLOPT_ERRORBUFFER, error_.data());
  options.set(CURLOPT_HEADERFUNCTION, takeHead);
  options.set(CURLOPT_WRITEFUNCTION, takeBody);
  setConnection(access, options);
  setTls(access, options);
  if (options.result() != CURLE_OK) {
    return absl::InvalidArgumentError(
        fmt::format("libcurl cannot be set up: {}", curl_easy_strerror(options.result())));
  }
  return setFields(access);
}

absl::Status HttpClient::setFields(const ApiAccess& access) {
  bool appended =
      append(Accept, get_fields_) && append(Accept, post_fields_) && append(JsonBody, post_fields_);
  for (const std::string& field : access.headers) {
    appended =
        appended && append(field.c_str(), get_fields_) && append(field.c_str(), post_fields_);
  }
  return appended ? absl::OkStatus() : absl::ResourceExhaustedError("out of memory");
}

HttpResult HttpClient::get(const std::string& path) {
  Options options(handle_.get());
  options.set(CURLOPT_HTTPGET, 1L);
  options.set(CURLOPT_FRESH_CONNECT, 0L);
  options.set(CURLOPT_HTTPHEADER, get_fields_.get());
  if (options.result() != CURLE_OK) {
    return NoAnswer{curl_easy_strerror(options.result()), false};
  }
  return exchange(path);
}

HttpResult HttpClient::post(const std::string& path, const std::string& json) {
  Options options(handle_.get());
  options.set(CURLOPT_POST, 1L);
  options.set(CURLOPT_POSTFIELDS, json.c_str());
  options.set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(json.size()));
  // If a connection that was used before breaks, libcurl sends the request again by a new one.
  options.set(CURLOPT_FRESH_CONNECT, 1L);
  options.set(CURLOPT_HTTPHEADER, post_fields_.get());
  if (options.result() != CURLE_OK) {
    return NoAnswer{curl_easy_strerror(options.result()), false};
  }
  return exchange(path);
}

HttpResult HttpClient::exchange(const std::string& path) {
  Sink sink{max_answer_bytes_};
  const std::string url = base_.text + path;
  Options options(handle_.get());
  options.set(CURLOPT_URL, url.c_str());
  options.set(CURLOPT_HEADERDATA, &sink);
  options.set(CURLOPT_WRITEDATA, &sink);
  if (options.result() != CURLE_OK) {
    return NoAnswer{curl_easy_strerror(options.result()), false};
  }
  error_.front() = '\0';
  const CURLcode code = curl_easy_perform(handle_.get());
  if (code != CURLE_OK) {
    return NoAnswer{reasonOf(code, error_.data(), sink), hasSent(handle_.get()),
                    code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_CACERT_BADFILE};
  }
  long status = 0;
  if (curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status) != CURLE_OK) {
    return NoAnswer{"the answer has no status", true};
  }
  return HttpAnswer{static_cast<int>(status), mediaType(handle_.get()), std::move(sink.body)};
}

}  // namespace idempotency::operator_client
