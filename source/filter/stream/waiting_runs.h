#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "source/filter/backend/backend.h"
#include "source/protocol/record.h"
#include "source/request/detached_run.h"

namespace idempotency::filter {

// A run and what else its stream on the private listener needs.
struct WaitingRun {
  std::shared_ptr<request::DetachedRun> run;
  // Weak: a run that waits must not keep a backend from flushing its writes when Envoy stops.
  std::weak_ptr<Backend> backend;
  std::string scheme = {};  // Of the client's request: HTTP/1.1 has none.
  std::string path = {};    // The same, if it needs escapes in HTTP/1.1; else empty.
  // Of the dialer.
  protocol::Attempt connection = 0;
  // How long it may run. None: it has started before, and was redirected.
  std::optional<std::chrono::milliseconds> timeout = {};
  // Of a redirected run: nothing else may keep its backend until its next stream takes it.
  std::shared_ptr<Backend> kept_backend = {};
};

// The runs of this process that wait for the private listener, or for another stream of it after an
// internal redirect. Any thread.
class WaitingRuns {
public:
  // The only instance, because every request on the private listener must find its run.
  static WaitingRuns& instance();

  // Returns the text that finds it: random, and known only to this process. Empty if the kernel has
  // no random numbers.
  std::string add(WaitingRun run);
  // None: there is no such run, or it was already taken.
  std::optional<WaitingRun> take(std::string_view token);

  // The same after an internal redirect. The attempt is random, too, and known only to the
  // upstream.
  void addRedirected(protocol::Attempt attempt, WaitingRun run);
  std::optional<WaitingRun> takeRedirected(protocol::Attempt attempt);

private:
  struct Entry {
    std::string secret;
    WaitingRun run;
  };

  std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;   // Guarded by mutex_.
  std::map<protocol::Attempt, WaitingRun> redirected_;  // Guarded by mutex_.
};

}  // namespace idempotency::filter
