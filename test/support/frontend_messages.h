#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace idempotency::test {

// What a client says to PostgreSQL, message by message.
class FrontendMessages {
public:
  // Takes bytes as they come, and tells of each prepared statement that is now wholly there: its
  // name, and the message with its parameters.
  void add(std::string_view bytes,
           const std::function<void(std::string_view statement, std::string_view message)>& tell);

private:
  bool started_ = false;  // The first message, which has no type, is over.
  std::string rest_;
};

}  // namespace idempotency::test
