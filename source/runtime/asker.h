#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "source/message/outcome_answer.h"
#include "source/protocol/record.h"

namespace idempotency::runtime {

// A request that asks the upstream what became of an attempt.
struct Question {
  std::string cluster;
  std::string method;
  std::string path;
  std::string authority;
  protocol::FieldList headers;
  std::chrono::milliseconds timeout{0};
  size_t max_answer_bytes = 0;  // Of the body; a larger answer is none.
};

class Asker {
public:
  using Answered = std::function<void(message::OutcomeAnswer)>;

  virtual ~Asker() = default;

  // Asks. Any thread; does not block. `answered` runs at most once, on any thread, also inside this
  // call. It may never run, so the caller has a time limit of its own.
  virtual void ask(Question question, Answered answered) = 0;
};

}  // namespace idempotency::runtime
