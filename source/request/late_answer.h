#pragma once

#include <cstdint>
#include <functional>
#include <utility>

namespace idempotency::request {

// Runs a task later on the worker of one stream, or drops it if the stream is gone by then. May be
// called on any thread, also when the stream is gone.
using Post = std::function<void(std::function<void()> task)>;

// The one answer that a part of a stream expects from another thread: the store's, a timer's,
// another worker's. An answer reaches the stream only while it is expected: not after another
// question, not after drop(), and not after the stream's end.
//
// Worker thread of the stream. The object must live until the stream's tasks no longer run: a
// callback that another thread still has keeps its address, but uses it only inside such a task.
class LateAnswer {
public:
  LateAnswer() = default;
  LateAnswer(const LateAnswer&) = delete;
  LateAnswer& operator=(const LateAnswer&) = delete;

  // Returns a callback for the answer to a new question; an answer to an earlier one is no longer
  // expected. The callback takes any arguments, on any thread, at most once. `then` gets them on
  // the worker, never inside of this call.
  template <class Then>
  auto expect(Post post, Then then) {
    return [this, number = ++number_, post = std::move(post), then](auto... answer) {
      post([this, number, then, ... answer = std::move(answer)]() mutable {
        if (number == number_) {
          then(std::move(answer)...);
        }
      });
    };
  }

  // No answer is expected any more.
  void drop() { ++number_; }

private:
  uint64_t number_ = 0;  // Of the last question.
};

}  // namespace idempotency::request
