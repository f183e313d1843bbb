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
#include "source/runtime/asker.h"

namespace idempotency::filter {

// Asks through one filter config, with Envoy's HTTP callouts. Main thread only. When the config is
// destroyed, its callouts end without a word.
class ConfigAsker {
public:
  explicit ConfigAsker(envoy::ConfigHandle handle) : handle_(handle) {}

  // From a task of the config's mailbox.
  void ask(const runtime::Question& question, runtime::Asker::Answered answered);
  // The config's hook.
  void onDone(uint64_t id, envoy::CalloutResult result, std::span<const envoy::Field> headers,
              std::span<const envoy::raw::Bytes> body);

private:
  const envoy::ConfigHandle handle_;
  std::unordered_map<uint64_t, runtime::Asker::Answered> open_;
};

// Asks through any config of a backend: the latest one, which lives longest. Any thread.
class SharedAsker : public runtime::Asker {
public:
  // Adds a config, and removes it before it is destroyed. The mailbox runs nothing once it is.
  void attach(std::shared_ptr<ConfigAsker> asker, std::shared_ptr<envoy::Mailbox> mailbox);
  void detach(const ConfigAsker& asker);

  // runtime::Asker
  void ask(runtime::Question question, Answered answered) override;

private:
  struct Config {
    std::shared_ptr<ConfigAsker> asker;
    std::shared_ptr<envoy::Mailbox> mailbox;
  };

  std::mutex mutex_;
  std::vector<Config> configs_;  // Guarded by mutex_.
};

}  // namespace idempotency::filter
