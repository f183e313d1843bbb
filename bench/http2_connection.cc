#include <charconv>
#include <cstring>
#include <fmt/format.h>
#include <nghttp2/nghttp2.h>

#include "bench/http_connection.h"

namespace idempotency::bench {
namespace {

// Large enough that flow control never holds up a body of ours.
constexpr int32_t Window = 1 << 24;

struct Stream {
  Clock::time_point sent_at;
  size_t body_sent = 0;
  int status = 0;
  bool has_header = false;
};

std::string_view text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

nghttp2_nv field(std::string_view name, std::string_view value) {
  // nghttp2 copies both; it takes them as if it could write to them.
  return {reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NONE};
}

class Http2Connection : public HttpConnection {
public:
  Http2Connection(Plan& plan, int socket)
      : HttpConnection(plan, socket), length_(fmt::format("{}", plan.body().size())) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, onHeader);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, onClose);
    nghttp2_session_client_new(&session_, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, Window}};
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, 1);
    nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, Window);
  }

  ~Http2Connection() override { nghttp2_session_del(session_); }

  void start() override {
    for (int i = 0; i < plan_.options().streams; ++i) {
      sendNext();
    }
    write();
    flush();
  }

protected:
  void onData(std::string_view data) override {
    const auto used = nghttp2_session_mem_recv(
        session_, reinterpret_cast<const uint8_t*>(data.data()), data.size());
    if (used < 0) {
      plan_.onFailure(nghttp2_strerror(static_cast<int>(used)));
      return;
    }
    write();
  }

private:
  void sendNext() {
    if (!plan_.take()) {
      return;
    }
    auto stream = std::make_unique<Stream>();
    stream->sent_at = Clock::now();
    stream->has_header = plan_.options().header.empty();
    const std::string key = plan_.nextKey();
    const nghttp2_nv head[] = {field(":method", "POST"),
                               field(":scheme", "http"),
                               field(":authority", "bench"),
                               field(":path", plan_.options().path),
                               field("content-type", "application/json"),
                               field("content-length", length_),
                               field("idempotency-key", key)};
    nghttp2_data_provider body;
    body.source.ptr = this;
    body.read_callback = readBody;
    const size_t fields = std::size(head) - (plan_.options().keyed ? 0 : 1);  // The key is last.
    const int32_t id = nghttp2_submit_request(session_, nullptr, head, fields,
                                              plan_.body().empty() ? nullptr : &body, stream.get());
    if (id < 0) {
      plan_.onFailure(nghttp2_strerror(id));
      return;
    }
    [[maybe_unused]] const Stream* const kept = stream.release();  // Until onClose.
  }

  void write() {
    const uint8_t* data = nullptr;
    for (;;) {
      const ssize_t size = nghttp2_session_mem_send(session_, &data);
      if (size <= 0) {
        return;
      }
      output_.append(text(data, static_cast<size_t>(size)));
    }
  }

  Stream* stream(int32_t id) const {
    return static_cast<Stream*>(nghttp2_session_get_stream_user_data(session_, id));
  }

  static ssize_t readBody(nghttp2_session*, int32_t id, uint8_t* buffer, size_t room,
                          uint32_t* flags, nghttp2_data_source* source, void*) {
    const auto* const self = static_cast<Http2Connection*>(source->ptr);
    Stream* const stream = self->stream(id);
    const std::string& body = self->plan_.body();
    const size_t size = std::min(room, body.size() - stream->body_sent);
    std::memcpy(buffer, body.data() + stream->body_sent, size);
    stream->body_sent += size;
    if (stream->body_sent == body.size()) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return static_cast<ssize_t>(size);
  }

  static int onHeader(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name,
                      size_t name_size, const uint8_t* value, size_t value_size, uint8_t,
                      void* data) {
    auto* const self = static_cast<Http2Connection*>(data);
    Stream* const stream = self->stream(frame->hd.stream_id);
    const std::string_view key = text(name, name_size);
    if (key == ":status") {
      const std::string_view status = text(value, value_size);
      std::from_chars(status.begin(), status.end(), stream->status);
    } else if (key == self->plan_.options().header) {
      stream->has_header = true;
    }
    return 0;
  }

  static int onClose(nghttp2_session*, int32_t id, uint32_t error, void* data) {
    auto* const self = static_cast<Http2Connection*>(data);
    const std::unique_ptr<Stream> stream(self->stream(id));
    if (error != NGHTTP2_NO_ERROR) {
      self->plan_.onFailure(nghttp2_http2_strerror(error));
    } else {
      self->plan_.onAnswer(stream->sent_at, stream->status, stream->has_header);
      self->sendNext();
    }
    return 0;
  }

  const std::string length_;
  nghttp2_session* session_ = nullptr;
};

}  // namespace

std::unique_ptr<HttpConnection> makeHttp2Connection(Plan& plan, int socket) {
  return std::make_unique<Http2Connection>(plan, socket);
}

}  // namespace idempotency::bench
