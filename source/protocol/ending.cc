#include "source/protocol/ending.h"

#include "source/protocol/overloaded.h"

namespace idempotency::protocol {

size_t responseBytes(const Ending& ending) {
  const auto* const completed = std::get_if<Completed>(&ending);
  return completed == nullptr ? 0 : completed->response.size();
}

size_t bytesOf(const Ending& ending) {
  return std::visit(Overloaded{
                        [](const Unknown& unknown) { return unknown.error.size(); },
                        [](const Completed& completed) { return completed.response.size(); },
                        [](const Failed& failed) { return failed.error.size(); },
                        [](const Released&) { return size_t{0}; },
                    },
                    ending);
}

}  // namespace idempotency::protocol
