#include "source/store/postgres/operations/queue_bound.h"

namespace idempotency::postgres {

QueueBound::Ticket QueueBound::enter(uint64_t bytes, Use use) {
  const uint64_t operation_limit = use == Use::Begin ? operations_ - operations_ / 4 : operations_;
  const uint64_t byte_limit = use == Use::Begin ? bytes_ - bytes_ / 4 : bytes_;
  // Added first and checked afterwards, so that two concurrent callers cannot both pass the limit.
  const uint64_t operations = used_operations_.fetch_add(1, std::memory_order_relaxed) + 1;
  const uint64_t used = used_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  Ticket ticket(shared_from_this(), bytes);
  return operations > operation_limit || used > byte_limit ? Ticket() : std::move(ticket);
}

}  // namespace idempotency::postgres
