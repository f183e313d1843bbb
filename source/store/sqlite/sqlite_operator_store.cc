#include "source/store/sqlite/sqlite_operator_store.h"

#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "source/store/sqlite/file.h"
#include "source/store/sqlite/operator_records.h"
#include "source/store/sqlite/operator_views.h"
#include "source/store/store.h"

namespace idempotency::sqlite {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

enum class Access : uint8_t { Reads, Writes };

constexpr std::string_view NothingChanged = "nothing was changed";

class SqliteOperatorStore : public store::OperatorStore {
public:
  SqliteOperatorStore(std::string path, milliseconds timeout, const Uptime& uptime)
      : path_(std::move(path)),
        timeout_(timeout),
        file_(
            path_, FileUse::Operator, [this] { return hasTime(); }, uptime) {}

  absl::Status open() {
    deadline_ = steady_clock::now() + timeout_;
    const absl::Status opened = file_.ensureOpen();
    return opened.ok() ? opened
                       : failure(opened.code(), std::string(opened.message()), NothingChanged);
  }

  absl::StatusOr<store::RecordPage> list(const store::RecordFilter& filter,
                                         const std::optional<protocol::Identity>& after,
                                         uint32_t limit) override {
    return carryOut(Access::Reads,
                    [&](Records& records) { return views(records).list(filter, after, limit); });
  }
  absl::StatusOr<std::optional<store::ListedRecord>> find(
      const protocol::Identity& identity) override {
    return carryOut(Access::Reads, [&](Records& records) -> std::optional<store::ListedRecord> {
      std::optional<RecordRow> row = records.find(identity);
      if (!row.has_value()) {
        return std::nullopt;
      }
      return store::ListedRecord{.identity = identity, .record = std::move(row->record)};
    });
  }
  absl::StatusOr<store::AuditPage> audit(const store::AuditFilter& filter,
                                         std::optional<int64_t> before, uint32_t limit) override {
    return carryOut(Access::Reads,
                    [&](Records& records) { return views(records).audit(filter, before, limit); });
  }
  absl::StatusOr<store::ChangeResult> change(const store::OperatorChange& change) override {
    return carryOut(accessOf(change.dry_run),
                    [&](Records& records) { return changes(records).change(change); });
  }
  absl::StatusOr<store::PurgeResult> purge(const store::Purge& purge, uint32_t limit) override {
    return carryOut(accessOf(purge.dry_run),
                    [&](Records& records) { return changes(records).purge(purge, limit); });
  }
  absl::StatusOr<store::Summary> summary() override {
    return carryOut(Access::Reads, [&](Records& records) { return views(records).summary(); });
  }
  absl::StatusOr<std::vector<store::UnsettledUse>> unsettled() override {
    return carryOut(Access::Reads, [&](Records& records) { return views(records).unsettled(); });
  }
  absl::StatusOr<std::vector<store::DueRecord>> takeDue(const store::OperationSet& operations,
                                                        milliseconds hold,
                                                        uint32_t limit) override {
    return carryOut(Access::Writes, [&](Records& records) {
      return changes(records).takeDue(operations, hold, limit);
    });
  }

private:
  static Access accessOf(bool dry_run) { return dry_run ? Access::Reads : Access::Writes; }

  bool hasTime() const { return steady_clock::now() < deadline_; }
  OperatorRecords changes(Records& records) { return {file_.database(), records}; }
  OperatorViews views(const Records& records) { return {file_.database(), records.now()}; }

  absl::Status failure(absl::StatusCode code, std::string_view reason,
                       std::string_view effect) const {
    // Some reasons name the file themselves.
    const std::string file =
        reason.find(path_) == std::string_view::npos ? path_ + ": " : std::string();
    return {code, fmt::format("{}{}; {}", file, reason, effect)};
  }
  // `committing`: the transaction was to be committed, and wrote.
  absl::Status failure(int error, const std::string& message, bool committing) const {
    switch (error & 0xff) {
      case SQLITE_BUSY:
        return failure(absl::StatusCode::kDeadlineExceeded,
                       fmt::format("another process held the lock for {} ms", timeout_.count()),
                       NothingChanged);
      case SQLITE_INTERRUPT:
        return failure(absl::StatusCode::kDeadlineExceeded,
                       fmt::format("not done within {} ms", timeout_.count()), NothingChanged);
      default:
        break;
    }
    if (committing && Database::mayBeCommitted(error)) {
      return failure(absl::StatusCode::kUnknown, message, MayBeChanged);
    }
    return failure(absl::StatusCode::kUnavailable, message, NothingChanged);
  }

  // One transaction.
  template <typename Work>
  auto carryOut(Access access, const Work& work)
      -> absl::StatusOr<std::invoke_result_t<Work, Records&>> {
    if (absl::Status opened = open(); !opened.ok()) {
      return opened;
    }
    Records& records = file_.records();
    Database& database = file_.database();
    database.setInterrupt([this] { return !hasTime(); });
    records.begin(access == Access::Writes);
    records.openOperation();
    auto result = work(records);
    records.closeOperation();
    const bool committing = records.flush();
    if (absl::Status ended = end(access, committing); !ended.ok()) {
      return ended;
    }
    return result;
  }

  absl::Status end(Access access, bool committing) {
    Database& database = file_.database();
    // From here on, an interruption would leave the outcome open.
    database.setInterrupt(nullptr);
    if (committing && file_.records().commit()) {
      if (access == Access::Writes && file_.hasMoved()) {
        return failure(absl::StatusCode::kUnknown, "the file was removed or replaced",
                       MayBeChanged);
      }
      file_.onSuccess();
      file_.tidy();
      return absl::OkStatus();
    }
    const int error = database.error();
    const std::string message = database.message();
    database.rollBack();
    file_.onFailure(error, message);
    return failure(error, message, committing && access == Access::Writes);
  }

  static constexpr std::string_view MayBeChanged =
      "the change may have been made: look at the records again";

  const std::string path_;
  const milliseconds timeout_;
  store::Deadline deadline_{};
  File file_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<store::OperatorStore>> openOperatorStore(const std::string& path,
                                                                        milliseconds timeout,
                                                                        const Uptime& uptime) {
  std::error_code error;
  // SQLite could take a relative path for something else than a file.
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (path.empty() || error) {
    return absl::InvalidArgumentError(fmt::format("'{}' is no path of a file", path));
  }
  auto store = std::make_unique<SqliteOperatorStore>(absolute.string(), timeout, uptime);
  if (absl::Status opened = store->open(); !opened.ok()) {
    return opened;
  }
  return store;
}

}  // namespace idempotency::sqlite
