#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <absl/status/statusor.h>

#include "source/operator_api/signature.h"
#include "source/protocol/settings.h"

namespace idempotency::operator_api {

// The secrets of webhooks, from files that are read again every second, on a thread of its own. A
// file that is gone or no longer usable takes its key out of the ring.
class KeyRing {
public:
  static constexpr size_t MinSecretBytes = 16;

  // Reads the files now: an error names the key whose file is not usable. `warn` is called on the
  // ring's thread when a key leaves the ring.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<KeyRing>> open(
      std::vector<protocol::WebhookKeySettings> files,
      std::function<void(const std::string&)> warn);
  KeyRing(const KeyRing&) = delete;
  KeyRing& operator=(const KeyRing&) = delete;
  // Waits for the thread, which may be reading a file.
  ~KeyRing();

  // The keys as they are now. Any thread; does not block.
  std::shared_ptr<const std::vector<WebhookKey>> keys() const;

private:
  KeyRing(std::vector<protocol::WebhookKeySettings> files,
          std::function<void(const std::string&)> warn);
  // Problems: what is wrong with the files.
  std::vector<WebhookKey> read(std::vector<std::string>& problems) const;
  void refresh();
  void run();

  const std::vector<protocol::WebhookKeySettings> files_;
  const std::function<void(const std::string&)> warn_;
  mutable std::mutex mutex_;
  std::shared_ptr<const std::vector<WebhookKey>> keys_;  // Guarded by mutex_.
  bool stopping_ = false;                                // Guarded by mutex_.
  std::condition_variable stop_;
  std::vector<std::string> problems_;  // The thread's own.
  std::thread thread_;
};

}  // namespace idempotency::operator_api
