#include "source/operator_api/key_ring.h"

#include <fmt/format.h>
#include <fstream>
#include <optional>
#include <utility>

namespace idempotency::operator_api {
namespace {

constexpr std::chrono::seconds Interval{1};
constexpr size_t MaxSecretBytes = 4096;

// Without line ends at its end. None: not usable.
std::optional<std::string> readSecret(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  // Room for a line end, and for one byte too many. An iterator would throw where this fails: on a
  // directory, or on an I/O error.
  std::string secret(MaxSecretBytes + 3, '\0');
  file.read(secret.data(), static_cast<std::streamsize>(secret.size()));
  if (!file.is_open() || file.bad()) {
    return std::nullopt;
  }
  secret.resize(static_cast<size_t>(file.gcount()));
  secret.erase(secret.find_last_not_of("\r\n") + 1);
  const bool usable = secret.size() >= KeyRing::MinSecretBytes && secret.size() <= MaxSecretBytes;
  return usable ? std::optional(secret) : std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<KeyRing>> KeyRing::open(
    std::vector<protocol::WebhookKeySettings> files, std::function<void(const std::string&)> warn) {
  std::unique_ptr<KeyRing> ring(new KeyRing(std::move(files), std::move(warn)));
  std::vector<std::string> problems;
  ring->keys_ = std::make_shared<const std::vector<WebhookKey>>(ring->read(problems));
  if (!problems.empty()) {
    return absl::FailedPreconditionError(problems.front());
  }
  ring->thread_ = std::thread([ring = ring.get()] { ring->run(); });
  return ring;
}

KeyRing::KeyRing(std::vector<protocol::WebhookKeySettings> files,
                 std::function<void(const std::string&)> warn)
    : files_(std::move(files)), warn_(std::move(warn)) {}

KeyRing::~KeyRing() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

std::shared_ptr<const std::vector<WebhookKey>> KeyRing::keys() const {
  const std::lock_guard lock(mutex_);
  return keys_;
}

std::vector<WebhookKey> KeyRing::read(std::vector<std::string>& problems) const {
  std::vector<WebhookKey> keys;
  for (const protocol::WebhookKeySettings& key : files_) {
    if (auto secret = readSecret(key.file)) {
      keys.push_back({key.id, *std::move(secret)});
    } else {
      problems.push_back(
          fmt::format("webhook.keys: the file of key \"{}\" cannot be read, or has less than {} or "
                      "more than {} "
                      "bytes",
                      key.id, MinSecretBytes, MaxSecretBytes));
    }
  }
  return keys;
}

void KeyRing::refresh() {
  std::vector<std::string> problems;
  auto keys = std::make_shared<const std::vector<WebhookKey>>(read(problems));
  {
    const std::lock_guard lock(mutex_);
    keys_ = std::move(keys);
  }
  if (problems != problems_) {
    for (const std::string& problem : problems) {
      warn_(problem);
    }
    problems_ = std::move(problems);
  }
}

void KeyRing::run() {
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, Interval, [this] { return stopping_; })) {
    lock.unlock();
    try {
      refresh();
    } catch (...) {  // No memory: the keys stay as they are for another second.
    }
    lock.lock();
  }
}

}  // namespace idempotency::operator_api
