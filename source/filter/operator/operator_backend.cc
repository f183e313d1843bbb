#include "source/filter/operator/operator_backend.h"

#include <chrono>
#include <fstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "source/envoy/process.h"
#include "source/filter/operator/observed_store.h"
#include "source/protocol/overloaded.h"
#include "source/runtime/undertaker.h"
#include "source/store/open/open_operator_store.h"

namespace idempotency::filter {
namespace {

// Below the idle timeout of streams, so that their clients get an answer.
constexpr std::chrono::seconds Patience{30};

void warn(const std::string& line) {
  envoy::log(envoy::LogLevel::Warn, "idempotency: operator: " + line);
}

absl::StatusOr<std::string> readPassword(const std::string& path) {
  constexpr size_t Longest = 4096;
  std::ifstream file(path, std::ios::binary);
  // An iterator would throw where this fails: on a directory, or on an I/O error.
  std::string password(Longest + 1, '\0');
  file.read(password.data(), static_cast<std::streamsize>(password.size()));
  password.resize(static_cast<size_t>(file.gcount()));
  if (!file.is_open() || file.bad() || password.size() > Longest) {
    return absl::FailedPreconditionError("store.postgres.password_file cannot be read");
  }
  password.erase(password.find_last_not_of("\r\n") + 1);
  return password;
}

absl::StatusOr<store::OperatorAccess> accessTo(const protocol::PostgresSettings& settings) {
  store::PostgresAccess access;
  access.conninfo = settings.conninfo;
  access.timeout = settings.timeout;
  if (!settings.password_file.empty()) {
    auto password = readPassword(settings.password_file);
    if (!password.ok()) {
      return password.status();
    }
    access.password = *std::move(password);
  }
  return access;
}

// The desk's thread: blocks.
absl::StatusOr<std::unique_ptr<store::OperatorStore>> openStoreOf(
    const protocol::StoreSettings& settings, OperatorLog& log) {
  using Access = absl::StatusOr<store::OperatorAccess>;
  const Access access = std::visit(
      protocol::Overloaded{
          [](const protocol::PostgresSettings& postgres) -> Access { return accessTo(postgres); },
          [](const protocol::SqliteSettings& sqlite) -> Access {
            return store::SqliteAccess{sqlite.path, sqlite.timeout};
          },
      },
      settings);
  if (!access.ok()) {
    return access.status();
  }
  auto opened = store::openOperatorStore(*access);
  if (!opened.ok()) {
    return opened.status();
  }
  return std::make_unique<ObservedStore>(*std::move(opened), log);
}

absl::StatusOr<std::unique_ptr<operator_api::KeyRing>> openKeys(
    const protocol::OperatorSettings& settings) {
  if (!settings.webhook.has_value() || settings.webhook->keys.empty()) {
    return nullptr;
  }
  return operator_api::KeyRing::open(settings.webhook->keys, warn);
}

}  // namespace

absl::StatusOr<std::shared_ptr<OperatorBackend>> OperatorBackend::obtain(
    const protocol::OperatorSettings& settings) {
  // Main thread only, as the function itself.
  static std::vector<std::weak_ptr<OperatorBackend>> known;
  std::erase_if(known, [](const auto& backend) { return backend.expired(); });
  for (const auto& candidate : known) {
    auto backend = candidate.lock();
    if (backend != nullptr && backend->api_.settings() == settings) {
      return backend;
    }
  }
  auto keys = openKeys(settings);
  if (!keys.ok()) {
    return keys.status();
  }
  const std::thread::id main_thread = std::this_thread::get_id();
  std::shared_ptr<OperatorBackend> backend(
      new OperatorBackend(settings, *std::move(keys)), [main_thread](OperatorBackend* last) {
        runtime::Undertaker::instance().bury([last] { delete last; }, main_thread);
      });
  known.push_back(backend);
  return backend;
}

OperatorBackend::OperatorBackend(const protocol::OperatorSettings& settings,
                                 std::unique_ptr<operator_api::KeyRing> keys)
    : keys_(std::move(keys)),
      api_(settings, [this] { return keys_->keys(); }),
      desk_([this, store = settings.store] { return openStoreOf(store, log_); }, warn,
            settings.max_waiting, Patience) {}

}  // namespace idempotency::filter
