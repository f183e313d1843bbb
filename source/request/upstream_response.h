#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "source/protocol/declared_outcome.h"
#include "source/protocol/outcome.h"
#include "source/protocol/policy.h"
#include "source/protocol/record.h"

namespace idempotency::request {

// Headers and trailers as they are stored.
struct ResponseFields {
  protocol::FieldList headers;
  protocol::FieldList trailers;
};

// What the filter's own headers tell the client.
struct ResponseMark {
  bool stored = true;
  // When the record expires, in seconds since 1970. None: not known, or there is no record.
  std::optional<int64_t> expires_at = {};
};

// The response to an attempt, as its stream shows it now. Worker thread, inside hooks. Only
// observeCall() and mark() also elsewhere, until the stream ends.
class UpstreamResponse {
public:
  virtual ~UpstreamResponse() = default;

  // 0 if there is none.
  virtual int status() const = 0;
  // What the upstream declares. Takes the field out: it is for the filter alone.
  virtual protocol::DeclaredOutcome takeDeclaredInHeaders() = 0;
  virtual protocol::DeclaredOutcome takeDeclaredInTrailers() = 0;
  // Whether the headers announce a declaration in the trailers.
  virtual bool announcesDeclaration() const = 0;
  // Whether the headers show that the response is too long to hold, or that it never ends. The
  // length of an error does not count, because its text may be a proxy's.
  virtual bool isTooLongToHold(const protocol::Policy& policy) const = 0;

  // What Envoy knows of the upstream call now: no field of the response.
  virtual protocol::Observation observeCall() const = 0;
  // Adds what a whole response says: all but `declared`, body_bytes and storable. `beginning` is
  // the body's, if its bytes are not at hand any more.
  virtual void observeWhole(std::optional<std::string_view> beginning,
                            protocol::Observation& seen) const = 0;
  // None if they must not be replayed.
  virtual std::optional<ResponseFields> fieldsToStore(const protocol::Policy& policy) const = 0;

  // --- The body, as far as it is at hand.
  virtual uint64_t bodySize() const = 0;
  virtual std::string body() const = 0;
  // Enough of it to recognise a proxy's error text.
  virtual std::string beginning() const = 0;

  // Lets Envoy hold this many bytes of the body.
  virtual void allowToHold(uint64_t bytes) = 0;
  // Adds the filter's own headers. Before the headers go to the client.
  virtual void mark(const ResponseMark& mark) = 0;
};

}  // namespace idempotency::request
