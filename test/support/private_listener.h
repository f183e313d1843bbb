#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace idempotency::test {

// The private listener of an Envoy, as far as the module's own requests need one: a UNIX socket,
// and HTTP/1.1 as Envoy's codec would read it.
class PrivateListener {
public:
  using Fields = std::vector<std::pair<std::string, std::string>>;

  // One connection with its request. It is closed with the object. One thread.
  class Run {
  public:
    explicit Run(int descriptor) : descriptor_(descriptor) {}
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    // Reads what has come; true when the request is complete.
    bool read();
    // Whether the module has closed the connection.
    bool isClosed() const;

    // Names in lower case, with pseudo headers in front, and without what describes the connection.
    Fields headers;
    std::string body;
    Fields trailers;
    bool ends_with_headers = false;

  private:
    bool parse();

    const int descriptor_;
    std::string bytes_;
  };

  explicit PrivateListener(std::string path);
  ~PrivateListener();
  PrivateListener(const PrivateListener&) = delete;
  PrivateListener& operator=(const PrivateListener&) = delete;

  // Any thread. Null: nobody has connected.
  std::unique_ptr<Run> accept() const;

private:
  const std::string path_;
  const int descriptor_;
};

}  // namespace idempotency::test
