#include <fmt/format.h>

#include "bench/http1_head.h"
#include "bench/http_connection.h"

namespace idempotency::bench {
namespace {

// The size of a chunked body without trailers; nothing while it is not whole.
std::optional<size_t> chunkedSize(std::string_view data) {
  size_t at = 0;
  for (;;) {
    const size_t line = data.find("\r\n", at);
    if (line == std::string_view::npos) {
      return std::nullopt;
    }
    size_t chunk = 0;
    std::from_chars(data.data() + at, data.data() + line, chunk, 16);
    at = line + 2 + chunk + 2;
    if (data.size() < at) {
      return std::nullopt;
    }
    if (chunk == 0) {
      return at;
    }
  }
}

class Http1Connection : public HttpConnection {
public:
  Http1Connection(Plan& plan, int socket)
      : HttpConnection(plan, socket),
        before_key_(
            fmt::format("POST {} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
                        "content-length: {}\r\n",
                        plan.options().path, plan.body().size())) {}

  void start() override {
    sendNext();
    flush();
  }

protected:
  void onData(std::string_view data) override {
    if (input_.empty()) {
      const size_t used = readAnswers(data);
      input_.assign(data.substr(used));
    } else {
      input_.append(data);
      input_.erase(0, readAnswers(input_));
    }
  }

private:
  void sendNext() {
    if (!plan_.take()) {
      return;
    }
    sent_at_ = Clock::now();
    output_.append(before_key_);
    if (plan_.options().keyed) {
      output_.append("idempotency-key: ").append(plan_.nextKey()).append("\r\n");
    }
    output_.append("\r\n").append(plan_.body());
  }

  // Returns how many bytes belong to whole answers.
  size_t readAnswers(std::string_view data) {
    size_t used = 0;
    while (!plan_.failed()) {
      const auto head = Http1Head::find(data.substr(used));
      if (!head) {
        break;
      }
      const auto body = bodySize(*head, data.substr(used + head->size()));
      if (!body) {
        break;
      }
      onAnswer(*head);
      used += head->size() + *body;
      sendNext();
    }
    return used;
  }

  // Nothing while the body is not whole.
  std::optional<size_t> bodySize(const Http1Head& head, std::string_view data) {
    if (const auto length = head.contentLength()) {
      return data.size() < *length ? std::nullopt : length;
    }
    if (head.header("transfer-encoding") == "chunked") {
      return chunkedSize(data);
    }
    plan_.onFailure("an answer that does not tell its length");
    return std::nullopt;
  }

  void onAnswer(const Http1Head& head) {
    int status = 0;
    const std::string_view word = head.secondWord();
    std::from_chars(word.begin(), word.end(), status);
    const std::string& wanted = plan_.options().header;
    plan_.onAnswer(sent_at_, status, wanted.empty() || head.header(wanted).has_value());
  }

  const std::string before_key_;
  std::string input_;
  Clock::time_point sent_at_;
};

}  // namespace

std::unique_ptr<HttpConnection> makeHttp1Connection(Plan& plan, int socket) {
  return std::make_unique<Http1Connection>(plan, socket);
}

}  // namespace idempotency::bench
