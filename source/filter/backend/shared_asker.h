#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "source/envoy/config_handle.h"
#include "source/envoy/mailbox.h"
#include "source/envoy/side_requests.h"
#include "source/message/outcome_answer.h"
#include "source/runtime/asker.h"

namespace idempotency::filter {

// Asks through one filter config, with Envoy's side streams. Main thread only.
class ConfigAsker : public envoy::SideRequestHooks {
public:
  struct Pending {
    runtime::Question question;
    runtime::Asker::Answered answered;
  };

  explicit ConfigAsker(envoy::ConfigHandle handle) : handle_(handle) {}

  // From a task of the config's mailbox.
  void ask(Pending pending);
  // Ends all open questions without an answer, and returns them. Not from one of the hooks below.
  std::vector<Pending> takeOpen();

  // The config's hooks.
  void onSideHeaders(uint64_t id, std::span<const envoy::Field> headers, bool end) override;
  void onSideData(uint64_t id, std::span<const envoy::raw::Bytes> data, bool end) override;
  void onSideComplete(uint64_t id) override;
  void onSideReset(uint64_t id, envoy::SideStreamReset reason) override;

private:
  struct Open {
    Pending pending;
    message::OutcomeAnswer answer;  // As far as it has come.
  };

  // Gives the answer, unless there is one already.
  void finish(uint64_t id, message::OutcomeAnswer answer);

  const envoy::ConfigHandle handle_;
  std::unordered_map<uint64_t, Open> open_;
};

// Asks through the newest config of this process, whichever backend the question comes from: all
// configs reach the same clusters. Any thread.
//
// Envoy destroys a config that ECDS has replaced on the worker of its last request, and ends its
// side streams there, although they are the main thread's. So a config must have no open question
// when its last request may end: each new config takes over the questions of those before it. There
// is no successor when the newest config of a process is removed; Envoy destroys it on the main
// thread, unless a last request holds it.
class SharedAsker : public runtime::Asker {
public:
  // The one of this process. It is never destroyed.
  static SharedAsker& ofProcess();

  // Adds a config, which takes over all open questions. While the config is being created, on the
  // main thread.
  void attach(std::shared_ptr<ConfigAsker> asker, std::shared_ptr<envoy::Mailbox> mailbox);
  // Before the config is destroyed. The mailbox runs nothing once it is.
  void detach(const ConfigAsker& asker);

  // runtime::Asker
  void ask(runtime::Question question, Answered answered) override;

private:
  struct Config {
    std::shared_ptr<ConfigAsker> asker;
    std::shared_ptr<envoy::Mailbox> mailbox;
  };

  void post(const Config& config, ConfigAsker::Pending pending);
  // From a task of the asker's config. Asks through the newest config, if a newer one has been
  // added since the task was posted: it has already taken over what the older one had asked.
  void askThrough(ConfigAsker& asker, ConfigAsker::Pending pending);

  // attach() holds it while it ends side streams, so that no config is destroyed meanwhile.
  std::mutex mutex_;
  std::vector<Config> configs_;  // Guarded by mutex_. The newest is the last.
};

}  // namespace idempotency::filter
