#pragma once

namespace idempotency::portable_test {

// Does what portable files do with parts that they bring themselves or take from an old C library.
// The first thing that goes wrong, or null.
const char* firstFault();

}  // namespace idempotency::portable_test
