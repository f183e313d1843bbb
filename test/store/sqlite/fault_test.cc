// What the embedded store does when the file, the disk or a neighbour misbehaves.
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sys/stat.h>

#include "gtest/gtest.h"
#include <sqlite3.h>

#include "source/store/sqlite/schema.h"
#include "source/store/sqlite/sqlite_store.h"
#include "test/store/sqlite/sqlite_rig.h"
#include "test/store/sqlite/test_vfs.h"
#include "test/store/store_contract.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;
using test_vfs::Call;

protocol::Identity identity(const std::string& key) {
  return {.tenant = "tenant", .operation = "operation", .key = key};
}

store::ClaimRequest claimRequest(const std::string& key) {
  store::ClaimRequest request;
  request.identity = identity(key);
  request.fingerprint = "fingerprint";
  request.attempt = store::newAttempt();
  request.lease = 1h;
  return request;
}

store::ClaimResult claim(store::Store& store, store::ClaimRequest request) {
  Answer<store::ClaimResult> answer;
  store.claim(std::move(request), soon(), answer.callback());
  return answer.get();
}

bool claims(store::Store& store, const std::string& key) {
  return std::holds_alternative<store::Claimed>(claim(store, claimRequest(key)));
}

store::WriteResult complete(store::Store& store, const store::ClaimRef& ref,
                            std::string response = "response") {
  protocol::Completed ending;
  ending.status = 200;
  ending.response = std::move(response);
  Answer<store::WriteResult> answer;
  store.settle(ref, std::move(ending), soon(), answer.callback());
  return answer.get();
}

store::LookUpResult lookUp(store::Store& store, const std::string& key) {
  Answer<store::LookUpResult> answer;
  store.lookUp(identity(key), soon(), answer.callback());
  return answer.get();
}

// Why a claim is refused; empty if it is not for that.
std::string refusal(store::Store& store, const std::string& key) {
  const store::ClaimResult result = claim(store, claimRequest(key));
  const auto* const unavailable = std::get_if<store::Unavailable>(&result);
  return unavailable == nullptr ? "" : unavailable->reason;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

class SqliteFaultTest : public ::testing::Test {
protected:
  sqlite::SqliteStore& store() { return rig_.store(); }
  SqliteRig rig_;
};

// --- Faults of the disk, while the store runs

TEST_F(SqliteFaultTest, FullDiskRefusesAndRecovers) {
  test_vfs::setFault(
      [](Call call, std::string_view) { return call == Call::Write ? SQLITE_FULL : SQLITE_OK; });
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(contains(refusal(store(), "full"), "full")) << refusal(store(), "full");
    const store::ClaimResult refused = claim(store(), claimRequest("full"));
    EXPECT_FALSE(std::get<store::Unavailable>(refused).queue_full) << "the disk is, not the queue";
  }
  test_vfs::setFault(nullptr);
  EXPECT_TRUE(claims(store(), "full")) << "nothing of the refused ones is there";
}

TEST_F(SqliteFaultTest, FullDiskStillServesReplays) {
  const store::ClaimRequest request = claimRequest("done");
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(store(), request)));
  ASSERT_EQ(complete(store(), {request.identity, request.attempt}).outcome,
            store::WriteOutcome::Done);
  test_vfs::setFault(
      [](Call call, std::string_view) { return call == Call::Write ? SQLITE_FULL : SQLITE_OK; });
  EXPECT_TRUE(std::holds_alternative<store::Record>(lookUp(store(), "done")));
  EXPECT_TRUE(std::holds_alternative<store::Exists>(claim(store(), claimRequest("done"))));
}

TEST_F(SqliteFaultTest, WriteErrorsRefuseAndRecover) {
  test_vfs::setFault([](Call call, std::string_view) {
    return call == Call::Write ? SQLITE_IOERR_WRITE : SQLITE_OK;
  });
  for (int i = 0; i < 6; ++i) {
    EXPECT_FALSE(claims(store(), "error"));
  }
  test_vfs::setFault(nullptr);
  EXPECT_TRUE(eventually([&] { return claims(store(), "error"); }));
}

TEST_F(SqliteFaultTest, SyncThatFailsLeavesAClaimInDoubtUntilItIsSettled) {
  std::atomic<bool> failing{true};
  test_vfs::setFault([&](Call call, std::string_view) {
    return call == Call::Sync && failing ? SQLITE_IOERR_FSYNC : SQLITE_OK;
  });
  const store::ClaimRequest request = claimRequest("doubt");
  EXPECT_TRUE(std::holds_alternative<store::InDoubt>(claim(store(), request)));
  failing = false;
  EXPECT_TRUE(
      eventually([&] { return std::holds_alternative<store::Absent>(lookUp(store(), "doubt")); }));
  EXPECT_TRUE(claims(store(), "doubt"));
  test_vfs::setFault(nullptr);
}

TEST_F(SqliteFaultTest, HangingDiskMeetsTheDeadlineAndTheClaimIsTakenBack) {
  // The commit reaches the log and then waits for the disk.
  std::mutex mutex;
  std::condition_variable changed;
  bool hanging = true;
  test_vfs::setFault([&](Call call, std::string_view) {
    if (call == Call::Sync) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !hanging; });
    }
    return SQLITE_OK;
  });
  const auto start = std::chrono::steady_clock::now();
  Answer<store::ClaimResult> stuck;
  store().claim(claimRequest("stuck"), start + 50ms, stuck.callback());
  const store::ClaimResult result = stuck.get();
  EXPECT_TRUE(std::holds_alternative<store::InDoubt>(result)) << "alternative " << result.index();
  // Behind it, what has not begun is known not to be done.
  Answer<store::ClaimResult> behind;
  store().claim(claimRequest("behind"), std::chrono::steady_clock::now() + 50ms, behind.callback());
  EXPECT_TRUE(std::holds_alternative<store::Unavailable>(behind.get()));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  {
    const std::lock_guard lock(mutex);
    hanging = false;
  }
  changed.notify_all();
  EXPECT_TRUE(
      eventually([&] { return std::holds_alternative<store::Absent>(lookUp(store(), "stuck")); }));
  EXPECT_TRUE(std::holds_alternative<store::Absent>(lookUp(store(), "behind")));
  test_vfs::setFault(nullptr);
}

TEST_F(SqliteFaultTest, AbandonWhileTheDiskHangsTakesTheClaimBack) {
  std::mutex mutex;
  std::condition_variable changed;
  bool hanging = true;
  bool reached = false;
  test_vfs::setFault([&](Call call, std::string_view) {
    if (call == Call::Sync) {
      std::unique_lock lock(mutex);
      reached = true;
      changed.notify_all();
      changed.wait(lock, [&] { return !hanging; });
    }
    return SQLITE_OK;
  });
  const store::ClaimRequest request = claimRequest("left");
  Answer<store::ClaimResult> answer;
  store().claim(request, soon(), answer.callback());
  {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, LongTime, [&] { return reached; })) << "no commit is synced";
  }
  store().abandon({request.identity, request.attempt});
  {
    const std::lock_guard lock(mutex);
    hanging = false;
  }
  changed.notify_all();
  EXPECT_TRUE(std::holds_alternative<store::InDoubt>(answer.get()));
  EXPECT_TRUE(
      eventually([&] { return std::holds_alternative<store::Absent>(lookUp(store(), "left")); }));
  test_vfs::setFault(nullptr);
}

TEST_F(SqliteFaultTest, StopReleasesWhatWasAbandoned) {
  std::vector<store::ClaimRequest> requests;
  for (int i = 0; i < 20; ++i) {
    requests.push_back(claimRequest("left" + std::to_string(i)));
    ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(store(), requests.back())));
  }
  for (const store::ClaimRequest& request : requests) {
    store().abandon({request.identity, request.attempt});
  }
  rig_.stop();
  EXPECT_EQ(rig_.askNumber("SELECT count(*) FROM record"), 0);
}

TEST_F(SqliteFaultTest, StopWritesWhatAttemptsHaveToSay) {
  const store::ClaimRequest request = claimRequest("last");
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(store(), request)));
  rig_.block();
  protocol::Completed last;
  last.response = "last words";
  Answer<store::WriteResult> completed;
  store().settle({request.identity, request.attempt}, last, soon(), completed.callback());
  // The lock goes when the stop has begun.
  std::thread stopper([this] { rig_.stop(); });
  std::this_thread::yield();
  rig_.unblock();
  stopper.join();
  EXPECT_EQ(completed.calls(), 1);
  EXPECT_EQ(completed.get().outcome, store::WriteOutcome::Done);
  rig_.start();
  const store::LookUpResult found = lookUp(store(), "last");
  ASSERT_TRUE(std::holds_alternative<store::Record>(found));
  EXPECT_EQ(std::get<store::Record>(found).response, "last words");
}

// --- The file, while the store runs

TEST_F(SqliteFaultTest, RemovedFileIsNoticedAndNotRecreated) {
  ASSERT_TRUE(claims(store(), "before"));
  const std::string folder = std::filesystem::path(rig_.path()).parent_path();
  const std::string away = folder + "/away";
  std::filesystem::create_directory(away);
  for (const char* part : {"", "-wal", "-shm"}) {
    std::filesystem::rename(rig_.path() + part, away + "/records.db" + part);
  }
  EXPECT_NE(refusal(store(), "while"), "");
  EXPECT_NE(refusal(store(), "while"), "");
  EXPECT_FALSE(std::filesystem::exists(rig_.path())) << "an empty one would forget all keys";
  for (const char* part : {"", "-wal", "-shm"}) {
    std::filesystem::rename(away + "/records.db" + part, rig_.path() + part);
  }
  EXPECT_TRUE(eventually([&] { return claims(store(), "after"); }));
  EXPECT_TRUE(std::holds_alternative<store::Exists>(claim(store(), claimRequest("before"))));
  EXPECT_TRUE(std::holds_alternative<store::Absent>(lookUp(store(), "while")));
}

TEST_F(SqliteFaultTest, RemovedLogTakesNothingWithIt) {
  ASSERT_TRUE(claims(store(), "before"));
  std::filesystem::remove(rig_.path() + "-wal");
  EXPECT_TRUE(eventually([&] { return claims(store(), "after"); }));
  EXPECT_TRUE(std::filesystem::exists(rig_.path() + "-wal")) << "not written to a nameless file";
  rig_.stop();
  rig_.start();
  EXPECT_TRUE(std::holds_alternative<store::Record>(lookUp(store(), "before")));
  EXPECT_TRUE(std::holds_alternative<store::Record>(lookUp(store(), "after")));
}

TEST_F(SqliteFaultTest, FileReplacedByAnotherOneIsUsed) {
  SqliteRig other;
  ASSERT_TRUE(claims(other.store(), "there"));
  other.stop();
  ASSERT_TRUE(claims(store(), "here"));
  std::filesystem::remove(rig_.path() + "-wal");
  std::filesystem::remove(rig_.path() + "-shm");
  std::filesystem::rename(other.path(), rig_.path());
  EXPECT_TRUE(eventually([&] { return claims(store(), "here"); }));
  EXPECT_TRUE(std::holds_alternative<store::Exists>(claim(store(), claimRequest("there"))));
}

TEST_F(SqliteFaultTest, DroppedTableIsRefusedWithAReasonAndRecovers) {
  ASSERT_TRUE(claims(store(), "before"));
  rig_.run("ALTER TABLE record RENAME TO elsewhere");
  EXPECT_TRUE(contains(refusal(store(), "x"), "record")) << refusal(store(), "x");
  EXPECT_TRUE(eventually(
      [&] { return contains(refusal(store(), "x"), "the tables are not as expected"); }));
  rig_.run("ALTER TABLE elsewhere RENAME TO record");
  EXPECT_TRUE(eventually([&] { return claims(store(), "x"); }));
  EXPECT_TRUE(std::holds_alternative<store::Record>(lookUp(store(), "before")));
}

TEST_F(SqliteFaultTest, DamageFoundWhileRunningIsRefused) {
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(claims(store(), "key" + std::to_string(i)));
  }
  rig_.run("PRAGMA wal_checkpoint(TRUNCATE)");
  // All pages but the first, as a broken disk returns them.
  test_vfs::setFault([](Call, std::string_view) { return SQLITE_OK; });
  {
    std::fstream file(rig_.path(), std::ios::in | std::ios::out | std::ios::binary);
    const auto size = std::filesystem::file_size(rig_.path());
    file.seekp(4096);
    file << std::string(size - 4096, '\xa5');
  }
  rig_.stop();
  auto store = sqlite::SqliteStore::create({.path = rig_.path()});
  ASSERT_TRUE(store.ok());
  const std::string reason = refusal(**store, "key1");
  EXPECT_TRUE(contains(reason, "damaged") || contains(reason, "malformed")) << reason;
}

// --- The file at start

TEST(SqliteStartTest, PathMustBeAbsolute) {
  for (const std::string path : {"", "records.db", "./records.db", "file:/tmp/x"}) {
    EXPECT_FALSE(sqlite::SqliteStore::create({.path = path}).ok()) << path;
  }
  EXPECT_FALSE(sqlite::SqliteStore::create({.path = std::string("/tmp/a\0b", 8)}).ok());
}

TEST(SqliteStartTest, FileThatIsNoDatabaseIsRefusedAndLeftAlone) {
  test_vfs::install();
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/notes.txt";
  const std::string text = "These are notes and no database at all, as anybody can see.\n";
  std::ofstream(path) << text;
  {
    auto store = sqlite::SqliteStore::create({.path = path});
    ASSERT_TRUE(store.ok());
    const std::string reason = refusal(**store, "x");
    EXPECT_TRUE(contains(reason, "not a database")) << reason;
  }
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text);
}

TEST(SqliteStartTest, DamagedFileIsRefusedUntilAGoodOneIsThere) {
  test_vfs::install();
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/records.db";
  const std::string good = folder.path() + "/good.db";
  {
    auto store = sqlite::SqliteStore::create({.path = path});
    for (int i = 0; i < 300; ++i) {
      ASSERT_TRUE(claims(**store, "key" + std::to_string(i)));
    }
  }
  std::filesystem::copy_file(path, good);
  {
    // Bytes in the middle of pages, so that the header still looks well.
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    for (std::streamoff page = 2; page < 12; ++page) {
      file.seekp(page * 4096 + 4);
      file << std::string(600, '\xff');
    }
  }
  auto store = sqlite::SqliteStore::create({.path = path});
  const std::string reason = refusal(**store, "new");
  EXPECT_TRUE(contains(reason, "damaged") || contains(reason, "malformed")) << reason;
  std::filesystem::rename(good, path);
  EXPECT_TRUE(eventually([&] { return claims(**store, "new"); }));
  EXPECT_TRUE(std::holds_alternative<store::Exists>(claim(**store, claimRequest("key299"))));
}

TEST(SqliteStartTest, NewerSchemaIsRefusedWithAReason) {
  test_vfs::install();
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/records.db";
  {
    auto store = sqlite::SqliteStore::create({.path = path});
    ASSERT_TRUE(claims(**store, "old"));
  }
  {
    auto database = sqlite::Database::open(path, false);
    ASSERT_TRUE((*database)->run("PRAGMA user_version = 99"));
  }
  auto store = sqlite::SqliteStore::create({.path = path});
  const std::string reason = refusal(**store, "new");
  EXPECT_TRUE(contains(reason, "version 99")) << reason;
}

TEST(SqliteStartTest, FolderThatComesLaterIsWaitedFor) {
  test_vfs::install();
  const TemporaryFolder folder;
  const std::string later = folder.path() + "/later";
  auto store = sqlite::SqliteStore::create({.path = later + "/records.db"});
  ASSERT_TRUE(store.ok());
  EXPECT_TRUE(contains(refusal(**store, "x"), "No such file")) << refusal(**store, "x");
  std::filesystem::create_directory(later);
  EXPECT_TRUE(eventually([&] { return claims(**store, "x"); }));
}

TEST(SqliteStartTest, FolderInPlaceOfTheFileIsRefused) {
  test_vfs::install();
  const TemporaryFolder folder;
  auto store = sqlite::SqliteStore::create({.path = folder.path()});
  EXPECT_NE(refusal(**store, "x"), "");
}

TEST(SqliteStartTest, ForbiddenFileIsRefusedAndRecovers) {
  test_vfs::install();
  const TemporaryFolder folder;
  std::atomic<bool> forbidden{true};
  test_vfs::setFault([&](Call call, std::string_view) {
    return call == Call::Open && forbidden ? SQLITE_CANTOPEN : SQLITE_OK;
  });
  auto store = sqlite::SqliteStore::create({.path = folder.path() + "/records.db"});
  EXPECT_TRUE(contains(refusal(**store, "x"), "cannot open")) << refusal(**store, "x");
  forbidden = false;
  EXPECT_TRUE(eventually([&] { return claims(**store, "x"); }));
  store->reset();
  test_vfs::reset();
}

TEST(SqliteStartTest, RefusedOperationsDoNotWaitForTheNextTry) {
  test_vfs::install();
  const TemporaryFolder folder;
  auto store = sqlite::SqliteStore::create({.path = folder.path() + "/no/records.db"});
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 500; ++i) {
    ASSERT_NE(refusal(**store, "x"), "");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

// A quota of bytes for one folder, by a file system of its own. Needs the right to mount.
TEST(SqliteStartTest, RealFullDiskRefusesAndRecovers) {
  test_vfs::install();
  const TemporaryFolder folder;
  const std::string mount = "mount -t tmpfs -o size=1m tmpfs " + folder.path() + " 2>/dev/null";
  if (std::system(mount.c_str()) != 0) {
    GTEST_SKIP() << "may not mount a file system";
  }
  {
    auto store = sqlite::SqliteStore::create({.path = folder.path() + "/records.db"});
    EXPECT_TRUE(claims(**store, "first"));
    bool refused = false;
    std::vector<store::ClaimRef> done;
    for (int i = 0; i < 100 && !refused; ++i) {
      const store::ClaimRequest request = claimRequest("big" + std::to_string(i));
      const store::ClaimResult claimed = claim(**store, request);
      if (!std::holds_alternative<store::Claimed>(claimed)) {
        EXPECT_TRUE(std::holds_alternative<store::Unavailable>(claimed)) << claimed.index();
        refused = true;
        break;
      }
      const store::ClaimRef ref{request.identity, request.attempt};
      const store::WriteResult written = complete(**store, ref, std::string(50'000, 'x'));
      refused = written.outcome != store::WriteOutcome::Done;
      if (refused) {
        EXPECT_EQ(written.outcome, store::WriteOutcome::Unavailable) << written.reason;
        EXPECT_TRUE(contains(written.reason, "full")) << written.reason;
      } else {
        done.push_back(ref);
      }
    }
    EXPECT_TRUE(refused);
    ASSERT_FALSE(done.empty());
    for (const store::ClaimRef& ref : done) {
      const store::LookUpResult found = lookUp(**store, ref.identity.key);
      ASSERT_TRUE(std::holds_alternative<store::Record>(found));
      EXPECT_EQ(std::get<store::Record>(found).response->size(), 50'000U);
    }
    ASSERT_EQ(std::system(("mount -o remount,size=8m " + folder.path()).c_str()), 0);
    EXPECT_TRUE(eventually([&] { return claims(**store, "room"); }));
  }
  EXPECT_EQ(std::system(("umount " + folder.path()).c_str()), 0);
}

TEST(SqliteStartTest, RealReadOnlyDiskRefusesAndRecovers) {
  test_vfs::install();
  const TemporaryFolder folder;
  const std::string mount = "mount -t tmpfs -o size=8m tmpfs " + folder.path() + " 2>/dev/null";
  if (std::system(mount.c_str()) != 0) {
    GTEST_SKIP() << "may not mount a file system";
  }
  {
    auto store = sqlite::SqliteStore::create({.path = folder.path() + "/records.db"});
    ASSERT_TRUE(claims(**store, "first"));
  }
  ASSERT_EQ(std::system(("mount -o remount,ro " + folder.path()).c_str()), 0);
  {
    auto store = sqlite::SqliteStore::create({.path = folder.path() + "/records.db"});
    EXPECT_TRUE(contains(refusal(**store, "x"), "read-only")) << refusal(**store, "x");
    ASSERT_EQ(std::system(("mount -o remount,rw " + folder.path()).c_str()), 0);
    EXPECT_TRUE(eventually([&] { return claims(**store, "x"); }));
  }
  EXPECT_EQ(std::system(("umount " + folder.path()).c_str()), 0);
}

// --- A fault at every step

// Fails the Nth call of the kind that is counted, once.
class NthFault {
public:
  NthFault(int n, int code, std::function<bool(Call)> counted) {
    test_vfs::setFault([this, n, code, counted = std::move(counted)](Call call, std::string_view) {
      return counted(call) && ++calls_ == n ? code : SQLITE_OK;
    });
    n_ = n;
  }
  ~NthFault() { test_vfs::setFault(nullptr); }
  bool wasMet() const { return calls_ >= n_; }

private:
  std::atomic<int> calls_{0};
  int n_ = 0;
};

// What was acknowledged is there; what was refused is not; what is in doubt is one or the other.
void expectTruth(store::Store& store, const std::string& key, const store::ClaimResult& claimed,
                 const std::optional<store::WriteResult>& completed) {
  const store::LookUpResult found = lookUp(store, key);
  const auto* const record = std::get_if<store::Record>(&found);
  if (!std::holds_alternative<store::Claimed>(claimed)) {
    EXPECT_TRUE(std::holds_alternative<store::Unavailable>(claimed) ||
                std::holds_alternative<store::InDoubt>(claimed))
        << claimed.index();
    EXPECT_TRUE(eventually([&] {
      return std::holds_alternative<store::Absent>(lookUp(store, key));
    })) << "nobody runs for it, so it must not stay";
    return;
  }
  ASSERT_NE(record, nullptr) << "an acknowledged claim is gone";
  ASSERT_TRUE(completed.has_value());
  switch (completed->outcome) {
    case store::WriteOutcome::Done:
      EXPECT_EQ(record->state, protocol::RecordState::Completed);
      EXPECT_EQ(record->response, "response");
      break;
    case store::WriteOutcome::Unavailable:
      EXPECT_EQ(record->state, protocol::RecordState::InProgress) << completed->reason;
      break;
    case store::WriteOutcome::InDoubt:
      break;
    case store::WriteOutcome::Locked:
    case store::WriteOutcome::Fenced:
      ADD_FAILURE() << "nobody else wrote it";
      break;
  }
}

// Lives of three keys under a fault; then everything must be as it was said, and work.
void runUnderFault(sqlite::SqliteStore& store, const std::function<void()>& end_of_fault) {
  std::vector<store::ClaimRequest> requests;
  std::vector<store::ClaimResult> claimed;
  std::vector<std::optional<store::WriteResult>> completed;
  for (int i = 0; i < 3; ++i) {
    requests.push_back(claimRequest("key" + std::to_string(i)));
    claimed.push_back(claim(store, requests.back()));
    completed.emplace_back();
    if (std::holds_alternative<store::Claimed>(claimed.back())) {
      completed.back() = complete(store, {requests.back().identity, requests.back().attempt});
    }
  }
  end_of_fault();
  EXPECT_TRUE(eventually([&] {
    return claims(store, "after" + std::to_string(store::newAttempt()));
  })) << "works again without a restart";
  for (size_t i = 0; i < requests.size(); ++i) {
    expectTruth(store, requests[i].identity.key, claimed[i], completed[i]);
    const store::ClaimRef ref{requests[i].identity, requests[i].attempt};
    if (completed[i].has_value()) {
      EXPECT_EQ(complete(store, ref).outcome, store::WriteOutcome::Done) << "safe to repeat";
    }
  }
}

struct SweepCase {
  const char* name;
  int code;
  std::vector<Call> calls;
  bool while_running = true;  // Whether a running store makes such calls.
};
void PrintTo(const SweepCase& test, std::ostream* out) {
  *out << test.name;
}

class SqliteFaultSweepTest : public ::testing::TestWithParam<SweepCase> {};

TEST_P(SqliteFaultSweepTest, EveryStepOfARunningStore) {
  const auto counted = [](Call call) {
    const auto& calls = GetParam().calls;
    return std::find(calls.begin(), calls.end(), call) != calls.end();
  };
  bool met = true;
  int n = 1;
  for (; met && n < 1000; ++n) {
    SCOPED_TRACE(n);
    SqliteRig rig;
    {
      NthFault fault(n, GetParam().code, counted);
      runUnderFault(rig.store(), [&] {
        met = fault.wasMet();
        test_vfs::setFault(nullptr);
      });
    }
    rig.stop();
    EXPECT_EQ(rig.askNumber("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> "
                            "'ok'"),
              0);
    ASSERT_FALSE(HasFailure());
  }
  if (GetParam().while_running) {
    EXPECT_GT(n, 2) << "no step was counted";
  }
}

TEST_P(SqliteFaultSweepTest, EveryStepOfAStart) {
  test_vfs::install();
  const auto counted = [](Call call) {
    const auto& calls = GetParam().calls;
    return std::find(calls.begin(), calls.end(), call) != calls.end();
  };
  bool met = true;
  for (int n = 1; met && n < 1000; ++n) {
    SCOPED_TRACE(n);
    const TemporaryFolder folder;
    NthFault fault(n, GetParam().code, counted);
    auto store = sqlite::SqliteStore::create({.path = folder.path() + "/records.db"});
    ASSERT_TRUE(store.ok());
    EXPECT_TRUE(
        eventually([&] { return claims(**store, "x" + std::to_string(store::newAttempt())); }));
    met = fault.wasMet();
    ASSERT_FALSE(HasFailure());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Faults, SqliteFaultSweepTest,
    ::testing::Values(SweepCase{"IoErrors",
                                SQLITE_IOERR,
                                {Call::Write, Call::Sync, Call::Read, Call::Truncate, Call::Lock,
                                 Call::ShmMap}},
                      SweepCase{"SyncErrors", SQLITE_IOERR_FSYNC, {Call::Sync}},
                      SweepCase{"FullDisk", SQLITE_FULL, {Call::Write}},
                      SweepCase{"CannotOpen", SQLITE_CANTOPEN, {Call::Open, Call::ShmMap}, false},
                      SweepCase{"NoMemory", SQLITE_NOMEM, {Call::Read, Call::Write, Call::ShmMap}}),
    [](const ::testing::TestParamInfo<SweepCase>& info) { return std::string(info.param.name); });

// --- Power cut

// Lives run while the disk is watched; at some moment only what was synced counts.
TEST_F(SqliteFaultTest, NothingAcknowledgedIsLostByAPowerCut) {
  for (int round = 0; round < 5; ++round) {
    SqliteRig rig;
    rig.stop();
    test_vfs::trackDurable();
    rig.start();
    std::vector<store::ClaimRequest> requests;
    std::vector<Answer<store::ClaimResult>> claimed(100);
    std::vector<Answer<store::WriteResult>> completed(100);
    for (size_t i = 0; i < claimed.size(); ++i) {
      requests.push_back(claimRequest("key" + std::to_string(i)));
    }
    // Callbacks may still run while the rig stops it, and has no pointer to it any more.
    store::Store& running = rig.store();
    for (size_t i = 0; i < claimed.size(); ++i) {
      running.claim(requests[i], soon(), [&, i, report = claimed[i].callback()](auto result) {
        protocol::Completed ending;
        ending.response = std::string(3000, 'x');
        running.settle({requests[i].identity, requests[i].attempt}, std::move(ending), soon(),
                       completed[i].callback());
        report(std::move(result));
      });
    }
    const size_t watched = static_cast<size_t>(round) * 20;
    completed[watched].get();
    // First what is known to be acknowledged, then what the disk holds.
    std::vector<bool> claim_known;
    std::vector<bool> completion_known;
    for (size_t i = 0; i < claimed.size(); ++i) {
      completion_known.push_back(completed[i].calls() > 0);
      claim_known.push_back(claimed[i].calls() > 0);
    }
    const std::map<std::string, std::string> files = test_vfs::durableFiles();
    rig.stop();

    const TemporaryFolder after;
    for (const auto& [name, content] : files) {
      std::ofstream(after.path() + "/" + name, std::ios::binary) << content;
    }
    auto store = sqlite::SqliteStore::create({.path = after.path() + "/records.db"});
    for (size_t i = 0; i < claimed.size(); ++i) {
      const store::LookUpResult found = lookUp(**store, requests[i].identity.key);
      const auto* const record = std::get_if<store::Record>(&found);
      if (claim_known[i]) {
        ASSERT_NE(record, nullptr) << "claim " << i << " of round " << round;
        EXPECT_EQ(record->attempt, requests[i].attempt);
      }
      if (completion_known[i]) {
        ASSERT_NE(record, nullptr);
        EXPECT_EQ(record->state, protocol::RecordState::Completed) << i;
        ASSERT_TRUE(record->response.has_value());
        EXPECT_EQ(record->response->size(), 3000U);
      }
    }
  }
}

// --- Bounds

TEST(SqliteBoundsTest, FullQueueRefusesClaimsAtOnceAndLetsAttemptsEnd) {
  protocol::LimitSettings limits;
  limits.in_flight = 10;
  SqliteRig rig(limits);
  const store::ClaimRequest held = claimRequest("held");
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(rig.store(), held)));
  rig.block();
  std::vector<Answer<store::ClaimResult>> claimed(10);
  for (size_t i = 0; i < claimed.size(); ++i) {
    rig.store().claim(claimRequest("key" + std::to_string(i)), soon(), claimed[i].callback());
  }
  const auto start = std::chrono::steady_clock::now();
  const store::ClaimResult refused = claim(rig.store(), claimRequest("more"));
  ASSERT_TRUE(std::holds_alternative<store::Unavailable>(refused));
  EXPECT_TRUE(std::get<store::Unavailable>(refused).queue_full)
      << std::get<store::Unavailable>(refused).reason;
  const store::LookUpResult looked = lookUp(rig.store(), "held");
  ASSERT_TRUE(std::holds_alternative<store::Unavailable>(looked));
  EXPECT_TRUE(std::get<store::Unavailable>(looked).queue_full);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  Answer<store::WriteResult> completed;
  rig.store().settle({held.identity, held.attempt}, protocol::Completed{}, soon(),
                     completed.callback());
  rig.unblock();
  EXPECT_EQ(completed.get().outcome, store::WriteOutcome::Done);
  for (const Answer<store::ClaimResult>& answer : claimed) {
    EXPECT_TRUE(std::holds_alternative<store::Claimed>(answer.get()));
  }
  EXPECT_TRUE(claims(rig.store(), "more")) << "there is room again";
}

TEST(SqliteBoundsTest, BackgroundJobsTakeNoPlaceOfARequest) {
  protocol::LimitSettings limits;
  limits.in_flight = 1;
  SqliteRig rig(limits);
  ASSERT_TRUE(claims(rig.store(), "first"));
  rig.block();
  Answer<store::Leadership> leads;
  rig.store().lead("somebody", 1s, soon(), leads.callback());
  Answer<store::ClaimResult> claimed;
  rig.store().claim(claimRequest("second"), soon(), claimed.callback());
  rig.unblock();
  EXPECT_TRUE(std::holds_alternative<store::Claimed>(claimed.get()));
  EXPECT_TRUE(leads.get().ours);
}

TEST(SqliteBoundsTest, QueueIsBoundedInBytes) {
  protocol::LimitSettings limits;
  limits.queue_bytes = 1 << 20;
  SqliteRig rig(limits);
  const store::ClaimRequest held = claimRequest("held");
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(rig.store(), held)));
  rig.block();
  protocol::Completed ending;
  ending.response = std::string(700'000, 'x');
  Answer<store::WriteResult> first;
  Answer<store::WriteResult> second;
  rig.store().settle({held.identity, held.attempt}, ending, soon(), first.callback());
  EXPECT_TRUE(contains(refusal(rig.store(), "new"), "full")) << "claims may fill only half";
  rig.store().settle({held.identity, held.attempt}, ending, soon(), second.callback());
  EXPECT_EQ(second.get().outcome, store::WriteOutcome::Unavailable);
  rig.unblock();
  EXPECT_EQ(first.get().outcome, store::WriteOutcome::Done);
  EXPECT_TRUE(claims(rig.store(), "new"));
}

TEST(SqliteBoundsTest, OperationAboveTheBoundGoesWhenItIsAlone) {
  protocol::LimitSettings limits;
  limits.queue_bytes = 1 << 20;
  SqliteRig rig(limits);
  const store::ClaimRequest held = claimRequest("held");
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(rig.store(), held)));
  EXPECT_EQ(complete(rig.store(), {held.identity, held.attempt}, std::string(3 << 20, 'x')).outcome,
            store::WriteOutcome::Done);
}

TEST(SqliteBoundsTest, ManyDuplicatesOfALargeResponseAreAllAnswered) {
  SqliteRig rig;
  const store::ClaimRequest held = claimRequest("large");
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(rig.store(), held)));
  const std::string response(size_t{4} << 20, 'y');
  ASSERT_EQ(complete(rig.store(), {held.identity, held.attempt}, response).outcome,
            store::WriteOutcome::Done);
  rig.block();
  std::vector<Answer<bool>> answers(40);
  for (size_t i = 0; i < answers.size(); ++i) {
    rig.store().claim(
        claimRequest("large"), soon(),
        [&response, report = answers[i].callback()](const store::ClaimResult& result) {
          const auto* const exists = std::get_if<store::Exists>(&result);
          report(exists != nullptr && exists->record.response == response);
        });
  }
  rig.unblock();
  for (const Answer<bool>& answer : answers) {
    EXPECT_TRUE(answer.get());
  }
}

TEST(SqliteBoundsTest, LogIsMovedIntoTheFileNowAndThen) {
  SqliteRig rig;
  for (int i = 0; i < 40; ++i) {
    const store::ClaimRequest request = claimRequest("key" + std::to_string(i));
    ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(rig.store(), request)));
    ASSERT_EQ(complete(rig.store(), {request.identity, request.attempt}, std::string(1 << 20, 'x'))
                  .outcome,
              store::WriteOutcome::Done);
  }
  EXPECT_GT(std::filesystem::file_size(rig.path()), size_t{10} << 20);
  EXPECT_LT(std::filesystem::file_size(rig.path() + "-wal"), size_t{30} << 20);
}

}  // namespace
}  // namespace idempotency::test
