#pragma once

namespace idempotency::protocol {

// One closure per alternative of a variant, for std::visit. A forgotten alternative does not
// compile.
template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace idempotency::protocol
