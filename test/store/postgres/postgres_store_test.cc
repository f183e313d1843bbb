// What is PostgreSQL's own: races that only it has, sessions, refusals, plans, lost connections.
#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "source/store/postgres/engine/session.h"
#include "source/store/postgres/schema/statements.h"
#include "source/store/postgres/wire/parameters.h"
#include "test/store/postgres/postgres_rig.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;
using postgres::PqConnection;
using postgres::PqResult;
using ::testing::HasSubstr;
using ::testing::Not;

store::Deadline in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

// A session of somebody else.
class Stranger {
public:
  explicit Stranger(const std::string& conninfo) : connection_(PQconnectdb(conninfo.c_str())) {}
  void run(const std::string& sql) {
    const PqResult result(PQexec(connection_.get(), sql.c_str()));
    EXPECT_TRUE(PQresultStatus(result.get()) == PGRES_COMMAND_OK ||
                PQresultStatus(result.get()) == PGRES_TUPLES_OK)
        << PQerrorMessage(connection_.get());
  }

private:
  PqConnection connection_;
};

class PostgresStoreTest : public ::testing::Test {
protected:
  PostgresRig rig_;

  postgres::PostgresStore& store() { return rig_.postgres(); }
  static protocol::Identity identity(const std::string& key) {
    return {"tenant", "operation", key};
  }
  static store::ClaimRequest request(const std::string& key) {
    store::ClaimRequest request;
    request.identity = identity(key);
    request.fingerprint = std::string(33, 'f');
    request.attempt = store::newAttempt();
    return request;
  }
  static protocol::Completed completion() {
    protocol::Completed completed;
    completed.status = 200;
    completed.response_schema = 1;
    completed.response = "response";
    return completed;
  }
  store::ClaimResult claim(const store::ClaimRequest& request, store::Deadline deadline = soon()) {
    Answer<store::ClaimResult> answer;
    store().claim(request, deadline, answer.callback());
    return answer.get();
  }
  store::ClaimRef mustClaim(const std::string& key) {
    const store::ClaimRequest wanted = request(key);
    const store::ClaimResult result = claim(wanted);
    EXPECT_TRUE(std::holds_alternative<store::Claimed>(result)) << describe(result);
    return {wanted.identity, wanted.attempt};
  }
  store::WriteOutcome complete(const store::ClaimRef& ref) {
    Answer<store::WriteResult> answer;
    store().settle(ref, completion(), soon(), answer.callback());
    return answer.get().outcome;
  }
  static std::string describe(const store::ClaimResult& result) {
    if (const auto* const unavailable = std::get_if<store::Unavailable>(&result)) {
      return "unavailable: " + unavailable->reason;
    }
    if (const auto* const in_doubt = std::get_if<store::InDoubt>(&result)) {
      return "in doubt: " + in_doubt->reason;
    }
    return fmt::format("alternative {}", result.index());
  }
  std::string insertSql(const std::string& key, protocol::Attempt attempt) {
    return fmt::format(
        "INSERT INTO idempotency.record (tenant, operation, key, attempt, state, fingerprint,"
        " lease_until, expires_at, reap_at, claimed_at, created_at) VALUES ('tenant', 'operation',"
        " '{}', {}, 1, 'f', now() + interval '1 hour', now() + interval '1 day',"
        " now() + interval '1 day', now(), now())",
        key, attempt);
  }
  // A claim waits for a lock of somebody else.
  bool somebodyWaits() {
    return rig_.sql(
               "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND"
               " wait_event_type = 'Lock'")[0][0] != "0";
  }
  int64_t rowCount() {
    return std::stoll(rig_.sql("SELECT count(*) FROM idempotency.record")[0][0]);
  }
};

// --- Own transactions

TEST_F(PostgresStoreTest, EveryKindOfClaimSaysWhetherTheUpstreamSettlesItself) {
  const auto isOwn = [&](const std::string& key) {
    return rig_.sql(fmt::format("SELECT own_transaction FROM idempotency.record WHERE key = '{}'",
                                key))[0][0] == "t";
  };
  // The first alone, then many in one statement.
  constexpr size_t Many = 20;
  for (const size_t count : {size_t{1}, Many}) {
    std::vector<store::ClaimRequest> requests;
    std::vector<Answer<store::ClaimResult>> answers(count);
    for (size_t i = 0; i < count; ++i) {
      requests.push_back(request(fmt::format("own {} of {}", i, count)));
      requests[i].own_transaction = i % 2 == 0;
    }
    for (size_t i = 0; i < count; ++i) {
      store().claim(requests[i], soon(), answers[i].callback());
    }
    for (size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(std::holds_alternative<store::Claimed>(answers[i].get()));
      EXPECT_EQ(isOwn(requests[i].identity.key), requests[i].own_transaction) << i;
    }
  }
  // A re-claim goes by its own policy, not by the earlier one.
  for (const bool own : {true, false}) {
    store::ClaimRequest first = request(fmt::format("again {}", own));
    first.own_transaction = !own;
    ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(first)));
    Answer<store::WriteResult> failed;
    store().settle({first.identity, first.attempt}, protocol::Failed{"e"}, soon(),
                   failed.callback());
    ASSERT_EQ(failed.get().outcome, store::WriteOutcome::Done);
    store::ClaimRequest again = request(first.identity.key);
    again.own_transaction = own;
    again.from = store::ReclaimFrom{protocol::RecordState::FailedRetryable, first.attempt};
    const store::ClaimResult result = claim(again);
    ASSERT_TRUE(std::holds_alternative<store::Claimed>(result)) << describe(result);
    EXPECT_EQ(isOwn(first.identity.key), own);
  }
}

TEST_F(PostgresStoreTest, OpenTransactionOfTheUpstreamDelaysTheEndingAndThenDecides) {
  for (const bool commits : {true, false}) {
    store::ClaimRequest wanted = request(fmt::format("open {}", commits));
    wanted.own_transaction = true;
    ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(wanted)));
    const store::ClaimRef ref{wanted.identity, wanted.attempt, true};
    const auto settle = [&] {
      Answer<store::WriteResult> answer;
      store().settle(ref, protocol::Failed{"response_timeout"}, soon(), answer.callback());
      return answer.get();
    };
    Stranger upstream(rig_.conninfo());
    upstream.run(fmt::format("BEGIN; SELECT idempotency.begin_work({})", wanted.attempt));
    upstream.run(fmt::format("SELECT idempotency.complete({}, 201)", wanted.attempt));
    EXPECT_EQ(settle().outcome, store::WriteOutcome::Locked);
    upstream.run(commits ? "COMMIT" : "ROLLBACK");
    const store::WriteResult result = settle();
    EXPECT_EQ(result.outcome, store::WriteOutcome::Done);
    ASSERT_EQ(result.completed.has_value(), commits);
    if (commits) {
      EXPECT_EQ(result.completed->status, 201);
      EXPECT_TRUE(result.completed->response.has_value());
    }
  }
}

// --- Races

TEST_F(PostgresStoreTest, LoserOfARaceSeesTheRecordThatWasCommittedWhileItWaited) {
  Stranger stranger(rig_.conninfo());
  stranger.run("BEGIN; " + insertSql("race", 77));
  Answer<store::ClaimResult> answer;
  store().claim(request("race"), soon(), answer.callback());
  ASSERT_TRUE(eventually([&] { return somebodyWaits(); }));
  EXPECT_EQ(answer.calls(), 0);
  stranger.run("COMMIT");
  const store::ClaimResult result = answer.get();
  const auto* const exists = std::get_if<store::Exists>(&result);
  ASSERT_NE(exists, nullptr) << describe(result);
  EXPECT_EQ(exists->record.attempt, 77);
}

TEST_F(PostgresStoreTest, ClaimerWinsWhenTheOtherRollsBack) {
  Stranger stranger(rig_.conninfo());
  stranger.run("BEGIN; " + insertSql("race", 77));
  Answer<store::ClaimResult> answer;
  store().claim(request("race"), soon(), answer.callback());
  ASSERT_TRUE(eventually([&] { return somebodyWaits(); }));
  stranger.run("ROLLBACK");
  EXPECT_TRUE(std::holds_alternative<store::Claimed>(answer.get()));
}

TEST_F(PostgresStoreTest, RecordThatVanishesBetweenTheTwoStatementsIsClaimedAfterAll) {
  // The insert finds a record, which goes before the look-up: by a trigger, so that the moment is
  // met for sure.
  const store::ClaimRef old = mustClaim("gone");
  rig_.sql(
      fmt::format("CREATE FUNCTION vanish() RETURNS trigger LANGUAGE plpgsql AS"
                  " $$BEGIN DELETE FROM idempotency.record WHERE attempt = {}; RETURN NULL; END$$;"
                  "CREATE TRIGGER vanish AFTER INSERT ON idempotency.record"
                  " FOR EACH STATEMENT EXECUTE FUNCTION vanish()",
                  old.attempt));
  const store::ClaimResult result = claim(request("gone"));
  EXPECT_TRUE(std::holds_alternative<store::Claimed>(result)) << describe(result);
  rig_.sql("DROP FUNCTION vanish() CASCADE");
}

TEST_F(PostgresStoreTest, ReadCommittedIsPinnedWhateverTheDatabasesDefault) {
  const std::string database = rig_.sql("SELECT current_database()")[0][0];
  rig_.sql(fmt::format("ALTER DATABASE {} SET default_transaction_isolation = 'repeatable read'",
                       database));
  rig_.stop();
  rig_.start();
  Stranger stranger(rig_.conninfo());
  stranger.run("BEGIN; " + insertSql("race", 77));
  Answer<store::ClaimResult> answer;
  store().claim(request("race"), soon(), answer.callback());
  ASSERT_TRUE(eventually([&] { return somebodyWaits(); }));
  stranger.run("COMMIT");
  const store::ClaimResult result = answer.get();
  EXPECT_TRUE(std::holds_alternative<store::Exists>(result)) << describe(result);
  // Nor was there an error that was sent again.
  EXPECT_EQ(store().stats().batches_failed, 0U);
  rig_.sql(fmt::format("ALTER DATABASE {} RESET ALL", database));
}

TEST_F(PostgresStoreTest, BatchesInOppositeOrdersDoNotDeadlock) {
  const auto deadlocks = [&] {
    return rig_.sql(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")[0][0];
  };
  const std::string before = deadlocks();
  store::Store& other = rig_.other();
  constexpr size_t Keys = 200;
  for (int round = 0; round < 20; ++round) {
    std::vector<Answer<store::ClaimResult>> answers(2 * Keys);
    std::thread thread([&] {
      for (size_t i = Keys; i-- > 0;) {
        other.claim(request(fmt::format("{}/{}", round, i)), soon(), answers[Keys + i].callback());
      }
    });
    for (size_t i = 0; i < Keys; ++i) {
      store().claim(request(fmt::format("{}/{}", round, i)), soon(), answers[i].callback());
    }
    thread.join();
    for (const auto& answer : answers) {
      answer.get();
    }
  }
  EXPECT_EQ(deadlocks(), before);
  EXPECT_EQ(store().stats().batches_failed, 0U);
}

TEST_F(PostgresStoreTest, OneBadValueInABatchHurtsNoStranger) {
  const store::ClaimRef bad = mustClaim("m-bad");
  std::vector<store::ClaimRef> running;
  for (int i = 0; i < 20; ++i) {
    running.push_back(mustClaim(fmt::format("running{}", i)));
  }
  rig_.block();
  std::vector<Answer<store::WriteResult>> completions(running.size());
  std::vector<Answer<store::ClaimResult>> claims(20);
  Answer<store::WriteResult> failed;
  for (size_t i = 0; i < running.size(); ++i) {
    if (i == 10) {
      store().settle(bad, protocol::Failed{"not UTF-8: \xff"}, soon(), failed.callback());
    }
    store().settle(running[i], completion(), soon(), completions[i].callback());
    store().claim(request(fmt::format("new{}", i)), soon(), claims[i].callback());
  }
  rig_.unblock();
  EXPECT_EQ(failed.get().outcome, store::WriteOutcome::Unavailable);
  EXPECT_THAT(failed.get().reason, HasSubstr("22021"));
  for (const auto& answer : completions) {
    EXPECT_EQ(answer.get().outcome, store::WriteOutcome::Done) << answer.get().reason;
  }
  for (const auto& answer : claims) {
    EXPECT_TRUE(std::holds_alternative<store::Claimed>(answer.get())) << describe(answer.get());
  }
  EXPECT_GT(store().stats().batches_failed, 0U) << "else this shows nothing";
  EXPECT_EQ(store().stats().breaker, postgres::Breaker::State::Closed);
}

TEST_F(PostgresStoreTest, BadValuesNeverOpenTheBreaker) {
  const store::ClaimRef ref = mustClaim("bad");
  for (int i = 0; i < 20; ++i) {
    Answer<store::WriteResult> answer;
    store().settle(ref, protocol::Failed{"\xff"}, soon(), answer.callback());
    EXPECT_EQ(answer.get().outcome, store::WriteOutcome::Unavailable);
  }
  mustClaim("good");
}

TEST_F(PostgresStoreTest, TimeLimitsThatOneTenantMeetsNeverOpenTheBreaker) {
  rig_.sql(
      "CREATE FUNCTION crawl() RETURNS trigger LANGUAGE plpgsql AS"
      " $$BEGIN PERFORM pg_sleep(10); RETURN NEW; END$$;"
      "CREATE TRIGGER crawl BEFORE INSERT ON idempotency.record FOR EACH ROW"
      " WHEN (NEW.tenant = 'slow') EXECUTE FUNCTION crawl()");
  rig_.stop();
  rig_.start(200ms);
  for (int i = 0; i < 12; ++i) {
    store::ClaimRequest wanted = request(fmt::format("slow{}", i));
    wanted.identity.tenant = "slow";
    const store::ClaimResult result = claim(wanted, in(2s));
    ASSERT_TRUE(std::holds_alternative<store::Unavailable>(result)) << describe(result);
    EXPECT_THAT(std::get<store::Unavailable>(result).reason, HasSubstr("57014"));
  }
  mustClaim("another tenant's");
  rig_.stop();
  rig_.sql("DROP TRIGGER crawl ON idempotency.record; DROP FUNCTION crawl()");
}

TEST_F(PostgresStoreTest, TableThatIsLockedForAllOpensTheBreaker) {
  rig_.stop();
  rig_.start(200ms);
  rig_.waitUntilUp();
  rig_.block();
  EXPECT_TRUE(eventually([&] {
    std::vector<Answer<store::ClaimResult>> answers(8);
    for (size_t i = 0; i < answers.size(); ++i) {
      store::ClaimRequest wanted = request("k");
      wanted.identity.tenant = fmt::format("tenant{}", i);
      store().claim(wanted, in(400ms), answers[i].callback());
    }
    for (const auto& answer : answers) {
      answer.get();
    }
    return store().stats().breaker == postgres::Breaker::State::Open;
  }));
  rig_.unblock();
  EXPECT_TRUE(eventually(
      [&] { return std::holds_alternative<store::Claimed>(claim(request("open"), in(1s))); }));
}

TEST_F(PostgresStoreTest, IdentityThatNoIndexRowHoldsIsRefusedAtOnce) {
  store::ClaimRequest wanted = request("k");
  // Incompressible, so that it would not fit by luck.
  for (int i = 0; i < 2600; ++i) {
    wanted.identity.operation.push_back(static_cast<char>((i * 2654435761U) >> 13));
  }
  EXPECT_TRUE(std::holds_alternative<store::Unavailable>(claim(wanted)));
  wanted.identity.operation.resize(2500);
  EXPECT_TRUE(std::holds_alternative<store::Claimed>(claim(wanted)));
}

// --- Locked records

// What a stranger's transaction can do to a record before it ends.
struct RowLock {
  const char* name;
  const char* sql;
};
class LockTest : public PostgresStoreTest, public ::testing::WithParamInterface<RowLock> {
protected:
  static constexpr int Strangers = 30;

  // Holds the record of this key until it is destroyed.
  std::unique_ptr<Stranger> lock(const std::string& key) {
    auto stranger = std::make_unique<Stranger>(rig_.conninfo());
    stranger->run(
        fmt::format("BEGIN; {} WHERE key = '{}' {}", GetParam().sql, key,
                    std::string_view(GetParam().sql).starts_with("SELECT") ? "FOR UPDATE" : ""));
    return stranger;
  }
  std::vector<store::ClaimRef> claimStrangers() {
    std::vector<store::ClaimRef> refs;
    for (int i = 0; i < Strangers; ++i) {
      refs.push_back(mustClaim(fmt::format("stranger{}", i)));
    }
    return refs;
  }
  store::WriteResult write(
      const std::function<void(std::function<void(store::WriteResult)>)>& call) {
    Answer<store::WriteResult> answer;
    call(answer.callback());
    return answer.get();
  }
  store::ExtendResult extend(const std::vector<store::ClaimRef>& refs) {
    Answer<store::ExtendResult> answer;
    store().extend(refs, 1h, soon(), answer.callback());
    return answer.get();
  }
  uint64_t sweep(uint32_t limit) {
    Answer<store::MaintenanceResult> answer;
    store().sweep(limit, std::nullopt, soon(), answer.callback());
    EXPECT_TRUE(answer.get().ok) << answer.get().reason;
    return answer.get().to_unknown;
  }
  // Nobody waited for the lock: what waits is ended with its batch.
  void expectNobodyWaited() {
    EXPECT_EQ(store().stats().batches_failed, 0U);
    EXPECT_FALSE(somebodyWaits());
  }
};

INSTANTIATE_TEST_SUITE_P(
    Rows, LockTest,
    ::testing::Values(RowLock{"Locked", "SELECT FROM idempotency.record"},
                      RowLock{"Updated",
                              "UPDATE idempotency.record SET recovery_point = 'charged'"},
                      RowLock{"Deleted", "DELETE FROM idempotency.record"}),
    [](const auto& info) { return info.param.name; });

TEST_P(LockTest, HeartbeatExtendsAllOthersAndSaysWhichIsLocked) {
  std::vector<store::ClaimRef> refs = claimStrangers();
  refs.insert(refs.begin() + 7, mustClaim("a"));
  refs.push_back({identity("nobody's"), 7});
  auto stranger = lock("a");
  store::ExtendResult result = extend(refs);
  for (size_t i = 0; i < refs.size(); ++i) {
    EXPECT_EQ(result[i].outcome, i == 7                 ? store::WriteOutcome::Locked
                                 : i == refs.size() - 1 ? store::WriteOutcome::Fenced
                                                        : store::WriteOutcome::Done)
        << i;
  }
  expectNobodyWaited();
  stranger->run("ROLLBACK");
  EXPECT_EQ(extend(refs)[7].outcome, store::WriteOutcome::Done);
}

TEST_P(LockTest, EndingsOfOthersAreWrittenAndThatOfTheLockedOneOnceTheLockHasGone) {
  const std::vector<store::ClaimRef> strangers = claimStrangers();
  const store::ClaimRef a = mustClaim("a");
  const std::function<void(std::function<void(store::WriteResult)>)> endings[] = {
      [&](auto done) { store().settle(a, completion(), soon(), done); },
      [&](auto done) {
        protocol::Completed bare = completion();
        bare.tombstone = protocol::Tombstone::TooLarge;
        bare.response.clear();
        store().settle(a, bare, soon(), done);
      },
      [&](auto done) { store().settle(a, protocol::Failed{"e"}, soon(), done); },
      [&](auto done) {
        store().settle(a, protocol::Unknown{"e", std::nullopt}, soon(), done);
      },
      [&](auto done) { store().settle(a, protocol::Released{}, soon(), done); },
  };
  auto stranger = lock("a");
  for (const auto& ending : endings) {
    EXPECT_EQ(write(ending).outcome, store::WriteOutcome::Locked);
  }
  std::vector<Answer<store::WriteResult>> answers(strangers.size() + 1);
  for (size_t i = 0; i < strangers.size(); ++i) {
    if (i == 7) {
      store().settle(a, completion(), soon(), answers.back().callback());
    }
    store().settle(strangers[i], completion(), soon(), answers[i].callback());
  }
  for (size_t i = 0; i < strangers.size(); ++i) {
    EXPECT_EQ(answers[i].get().outcome, store::WriteOutcome::Done) << answers[i].get().reason;
  }
  EXPECT_EQ(answers.back().get().outcome, store::WriteOutcome::Locked);
  expectNobodyWaited();
  stranger->run("ROLLBACK");
  EXPECT_EQ(write(endings[0]).outcome, store::WriteOutcome::Done);
}

TEST_P(LockTest, DuplicatesOfTheLockedKeyAreToldAndNewKeysAreClaimed) {
  const store::ClaimRef a = mustClaim("a");
  auto stranger = lock("a");
  std::vector<Answer<store::ClaimResult>> answers(Strangers);
  for (size_t i = 0; i < answers.size(); ++i) {
    store().claim(request(i % 3 == 0 ? "a" : fmt::format("new{}", i)), soon(),
                  answers[i].callback());
  }
  for (size_t i = 0; i < answers.size(); ++i) {
    const store::ClaimResult result = answers[i].get();
    if (i % 3 == 0) {
      ASSERT_TRUE(std::holds_alternative<store::Exists>(result)) << describe(result);
      EXPECT_EQ(std::get<store::Exists>(result).record.attempt, a.attempt);
    } else {
      EXPECT_TRUE(std::holds_alternative<store::Claimed>(result)) << describe(result);
    }
  }
  expectNobodyWaited();
}

TEST_P(LockTest, LockedRecordIsNotReclaimedUntilTheLockHasGone) {
  const store::ClaimRef a = mustClaim("a");
  ASSERT_EQ(
      write([&](auto done) { store().settle(a, protocol::Failed{"e"}, soon(), done); }).outcome,
      store::WriteOutcome::Done);
  store::ClaimRequest again = request("a");
  again.from = store::ReclaimFrom{protocol::RecordState::FailedRetryable, a.attempt};
  auto stranger = lock("a");
  const store::ClaimResult result = claim(again);
  EXPECT_TRUE(std::holds_alternative<store::Exists>(result)) << describe(result);
  expectNobodyWaited();
  stranger->run("ROLLBACK");
  EXPECT_TRUE(std::holds_alternative<store::Claimed>(claim(again)));
}

TEST_P(LockTest, AbandonedClaimIsReleasedOnceTheLockHasGone) {
  const store::ClaimRef a = mustClaim("a");
  auto stranger = lock("a");
  store().abandon(a);
  mustClaim("b");
  std::this_thread::sleep_for(300ms);  // It has been tried, and not been given up.
  EXPECT_EQ(store().stats().orphans, 1U);
  expectNobodyWaited();
  stranger->run("ROLLBACK");
  EXPECT_TRUE(eventually([&] { return rowCount() == 1; }));
}

TEST_P(LockTest, SweeperPassesTheLockedRecordAndComesBackToIt) {
  for (const char* const key : {"a", "b", "c"}) {
    mustClaim(key);
  }
  rig_.passTime(1h);
  auto stranger = lock("a");
  // One at a time: the locked one, though first, stops nobody.
  EXPECT_EQ(sweep(1), 1U);
  EXPECT_EQ(sweep(1), 1U);
  EXPECT_EQ(sweep(1), 0U);
  EXPECT_EQ(rig_.sql("SELECT count(*) FROM idempotency.record r, idempotency.sweep_position p"
                     " WHERE r.claimed_at > p.swept_to")[0][0],
            "0")
      << "the walk has passed all of them";
  expectNobodyWaited();
  stranger->run("ROLLBACK");
  EXPECT_EQ(sweep(1), 1U);
}

// --- Acknowledgement

TEST_F(PostgresStoreTest, ClaimIsAcknowledgedOnlyOnceItIsCommitted) {
  // Its row is returned, and then the commit fails.
  rig_.sql(
      "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
      " $$BEGIN RAISE EXCEPTION 'no'; END$$;"
      "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON idempotency.record DEFERRABLE INITIALLY "
      "DEFERRED"
      " FOR EACH ROW EXECUTE FUNCTION refuse()");
  const store::ClaimResult result = claim(request("late"), in(5s));
  EXPECT_TRUE(std::holds_alternative<store::Unavailable>(result)) << describe(result);
  EXPECT_EQ(rowCount(), 0);
  rig_.sql("DROP TRIGGER late ON idempotency.record; DROP FUNCTION refuse()");
  mustClaim("late");
}

TEST_F(PostgresStoreTest, CompletionWritesBothRowsOrNeither) {
  const store::ClaimRef ref = mustClaim("both");
  rig_.sql(
      "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
      " $$BEGIN RAISE EXCEPTION 'no'; END$$;"
      "CREATE TRIGGER refuse BEFORE INSERT ON idempotency.response"
      " FOR EACH ROW EXECUTE FUNCTION refuse()");
  EXPECT_EQ(complete(ref), store::WriteOutcome::Unavailable);
  EXPECT_EQ(rig_.sql("SELECT state FROM idempotency.record")[0][0], "1");
  rig_.sql("DROP TRIGGER refuse ON idempotency.response; DROP FUNCTION refuse()");
  EXPECT_EQ(complete(ref), store::WriteOutcome::Done);
}

TEST_F(PostgresStoreTest, FencedCompletionStoresNoResponse) {
  const store::ClaimRef ref = mustClaim("fenced");
  EXPECT_EQ(complete({ref.identity, ref.attempt ^ 1}), store::WriteOutcome::Fenced);
  EXPECT_EQ(rig_.sql("SELECT count(*) FROM idempotency.response")[0][0], "0");
}

TEST_F(PostgresStoreTest, DuplicatesWriteNothing) {
  const store::ClaimRef ref = mustClaim("dup");
  ASSERT_EQ(complete(ref), store::WriteOutcome::Done);
  const auto xid = [&] { return rig_.sql("SELECT pg_snapshot_xmax(pg_current_snapshot())")[0][0]; };
  const std::string before = xid();
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(std::holds_alternative<store::Exists>(claim(request("dup"))));
  }
  EXPECT_EQ(xid(), before) << "no transaction that writes";
}

class ManyDuplicatesTest : public PostgresStoreTest {
protected:
  // Most of the last claims met a record.
  ManyDuplicatesTest() {
    mustClaim("hot");
    for (int i = 0; i < 100; ++i) {
      EXPECT_TRUE(std::holds_alternative<store::Exists>(claim(request("hot"))));
    }
  }
  uint64_t batchesFor(const std::string& key) {
    const uint64_t before = store().stats().batches;
    claim(request(key));
    EXPECT_TRUE(eventually([&] { return store().queuedOperations() == 0; }));
    return store().stats().batches - before;
  }
};

TEST_F(ManyDuplicatesTest, ClaimLooksBeforeItInserts) {
  EXPECT_EQ(batchesFor("hot"), 1U);
  EXPECT_EQ(batchesFor("new"), 2U);
  for (int i = 0; i < 100; ++i) {
    mustClaim(fmt::format("new{}", i));
  }
  EXPECT_EQ(batchesFor("newer"), 1U) << "and inserts at once where most are new";
}

TEST_F(ManyDuplicatesTest, OneOfManyThatLookFirstIsClaimed) {
  std::vector<Answer<store::ClaimResult>> answers(64);
  for (const auto& answer : answers) {
    store().claim(request("race"), soon(), answer.callback());
  }
  int claimed = 0;
  for (const auto& answer : answers) {
    const store::ClaimResult result = answer.get();
    claimed += std::holds_alternative<store::Claimed>(result) ? 1 : 0;
    EXPECT_TRUE(std::holds_alternative<store::Claimed>(result) ||
                std::holds_alternative<store::Exists>(result))
        << describe(result);
  }
  EXPECT_EQ(claimed, 1);
}

TEST_F(ManyDuplicatesTest, TenantWithoutRoomIsStillOverItsQuota) {
  store::ClaimRequest wanted = request("more");
  wanted.tenant_live_keys = 2;
  EXPECT_TRUE(std::holds_alternative<store::Claimed>(claim(wanted)));
  wanted.identity.key = "most";
  const store::ClaimResult result = claim(wanted);
  EXPECT_TRUE(std::holds_alternative<store::OverQuota>(result)) << describe(result);
}

// --- Quota

class QuotaTest : public PostgresStoreTest {
protected:
  static store::ClaimRequest capped(const std::string& key, uint64_t cap) {
    store::ClaimRequest wanted = request(key);
    wanted.tenant_live_keys = cap;
    return wanted;
  }
  // As another module's claims, which count nothing.
  void addRecords(int first, int last) {
    rig_.sql(fmt::format(
        "INSERT INTO idempotency.record (tenant, operation, key, attempt, state, fingerprint,"
        " lease_until, expires_at, reap_at, claimed_at, created_at) SELECT 'tenant', 'operation',"
        " ('r' || i)::bytea, i, 2, 'f', now(), now() + interval '1 day',"
        " now() + interval '1 day', now(), now() FROM generate_series({}, {}) i",
        first, last));
  }
  std::string kept() { return rig_.sql("SELECT records FROM idempotency.tenant_use")[0][0]; }
  bool isKept() { return !rig_.sql("SELECT FROM idempotency.tenant_use").empty(); }
  void reap() {
    Answer<store::MaintenanceResult> answer;
    store().reap(1000, false, soon(), answer.callback());
    EXPECT_TRUE(answer.get().ok) << answer.get().reason;
  }
  // A process believes what it was told for a second.
  bool isRefusedSoon(uint64_t cap) {
    return eventually([&, i = 0]() mutable {
      return std::holds_alternative<store::OverQuota>(
          claim(capped(fmt::format("soon{}", ++i), cap)));
    });
  }
  // As if the last count were long ago.
  void letCountsAge() {
    rig_.sql("UPDATE idempotency.tenant_use SET counted_at = counted_at - interval '1 day'");
  }
  // A claim is added a moment after it is granted, perhaps after the count that has seen it: the
  // next count corrects that.
  bool isCountedSoon(int records) {
    return eventually([&] {
      letCountsAge();
      reap();
      return kept() == std::to_string(records);
    });
  }
  // Pages of tables and indexes that claims like these look at.
  int64_t pagesFor(uint64_t cap, bool granted) {
    rig_.stop();
    const auto pages = [&] {
      const auto row = rig_.sql(
          "SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)"
          " FROM pg_statio_user_tables WHERE relname IN ('record', 'tenant_use')")[0];
      return std::stoll(row[0]);
    };
    std::this_thread::sleep_for(500ms);  // What others did is told.
    const int64_t before = pages();
    rig_.start(5s, false, "", 20'000, /*connections=*/1);
    for (int i = 0; i < 100; ++i) {
      const store::ClaimResult result = claim(capped(fmt::format("{} {}", cap, i), cap));
      EXPECT_EQ(std::holds_alternative<store::Claimed>(result), granted) << describe(result);
      EXPECT_EQ(std::holds_alternative<store::OverQuota>(result), !granted) << describe(result);
    }
    rig_.stop();  // A session tells its counts at its end.
    int64_t after = before;
    EXPECT_TRUE(eventually([&] { return (after = pages()) > before + 100; }));
    std::this_thread::sleep_for(500ms);
    after = pages();
    rig_.start();
    return after - before;
  }
};

TEST_F(QuotaTest, ClaimCostsTheSameWhateverTheTenantHas) {
  addRecords(1, 1000);
  rig_.sql("VACUUM ANALYZE idempotency.record");
  mustClaim("warm");
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(capped("track", 1'000'000))));
  ASSERT_TRUE(eventually([&] { return isKept(); }));
  EXPECT_TRUE(isCountedSoon(1002)) << kept();
  const int64_t few_granted = pagesFor(1'000'000, true);
  const int64_t few_refused = pagesFor(1000, false);
  addRecords(10'000, 209'999);
  rig_.sql("VACUUM ANALYZE idempotency.record");
  EXPECT_TRUE(isCountedSoon(1002 + 100 + 200'000)) << kept();
  const int64_t many_granted = pagesFor(1'000'001, true);
  const int64_t many_refused = pagesFor(1001, false);
  RecordProperty("few", fmt::format("{} granted, {} refused", few_granted, few_refused));
  RecordProperty("many", fmt::format("{} granted, {} refused", many_granted, many_refused));
  // The trees of the indexes are a level or two higher.
  EXPECT_LT(many_granted, 2 * few_granted) << few_granted;
  EXPECT_LT(many_refused, 2 * few_refused) << few_refused;
}

TEST_F(QuotaTest, UncountedRecordsAreFoundByTheNextCount) {
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(capped("first", 1000))));
  ASSERT_TRUE(eventually([&] { return isKept(); }));
  addRecords(1, 1000);  // By a module of the version before, say.
  EXPECT_TRUE(isCountedSoon(1001)) << kept();
  EXPECT_TRUE(isRefusedSoon(1000));
  // And what went without being counted makes room: a refusal has it counted.
  rig_.sql("DELETE FROM idempotency.record WHERE key <> 'first'");
  EXPECT_TRUE(eventually([&] {
    letCountsAge();
    reap();
    return std::holds_alternative<store::Claimed>(claim(capped("third", 1000)));
  }));
}

TEST_F(QuotaTest, TenantWithManyRecordsThatIsNewToTheQuotaIsCountedInFullByTheReaper) {
  addRecords(1, 2000);
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(capped("first", 1500))))
      << "not all of them are looked at";
  ASSERT_TRUE(eventually([&] { return isKept(); }));
  EXPECT_TRUE(isCountedSoon(2001)) << kept();
  EXPECT_TRUE(isRefusedSoon(1500));
}

TEST_F(QuotaTest, NumberIsKeptAcrossProcessesAndRestarts) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(capped(fmt::format("k{}", i), 1000))));
  }
  rig_.stop();  // What is not yet written is written now.
  EXPECT_EQ(kept(), "20");
  rig_.start();
  for (int i = 20; i < 25; ++i) {
    ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(capped(fmt::format("k{}", i), 25))));
  }
  EXPECT_TRUE(std::holds_alternative<store::OverQuota>(claim(capped("more", 25))));
  Answer<store::ClaimResult> answer;
  rig_.other().claim(capped("more", 25), soon(), answer.callback());
  EXPECT_TRUE(std::holds_alternative<store::OverQuota>(answer.get())) << describe(answer.get());
}

TEST_F(QuotaTest, TwoProcessesExceedTheCapByNoMoreThanWhatWasUnderWay) {
  constexpr uint64_t Cap = 200;
  constexpr size_t AtOnce = 8;  // In each process.
  store::Store* const stores[] = {&store(), &rig_.other()};
  std::atomic<int> granted{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 2 * AtOnce; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        Answer<store::ClaimResult> answer;
        stores[t % 2]->claim(capped(fmt::format("{}/{}", t, i), Cap), soon(), answer.callback());
        granted += std::holds_alternative<store::Claimed>(answer.get()) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_GE(granted, static_cast<int>(Cap));
  // A write of the other's number takes a batch; what goes on meanwhile is not seen.
  EXPECT_LE(granted, static_cast<int>(Cap + 4 * AtOnce));
  EXPECT_EQ(rowCount(), granted);
}

TEST_F(QuotaTest, LockedNumberDelaysNoClaim) {
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(capped("first", 1000))));
  ASSERT_TRUE(eventually([&] { return isKept(); }));
  Stranger stranger(rig_.conninfo());
  stranger.run("BEGIN; SELECT FROM idempotency.tenant_use FOR UPDATE");
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(capped(fmt::format("k{}", i), 1000))));
  }
  reap();
  EXPECT_EQ(store().stats().batches_failed, 0U);
  stranger.run("ROLLBACK");
  EXPECT_TRUE(eventually([&] { return kept() == "21"; }));
}

// --- Gathering

TEST_F(PostgresStoreTest, OperationsThatAreTooFewForABatchAreSentAllTheSame) {
  rig_.waitUntilUp();
  rig_.block();
  // The third finds two under way, and no other ever comes.
  std::vector<Answer<store::ClaimResult>> answers(3);
  for (size_t i = 0; i < answers.size(); ++i) {
    store().claim(request(fmt::format("few{}", i)), soon(), answers[i].callback());
    ASSERT_TRUE(eventually([&] { return store().stats().batches == i + 1; }));
  }
  rig_.unblock();
  for (const auto& answer : answers) {
    EXPECT_TRUE(std::holds_alternative<store::Claimed>(answer.get()));
  }
}

// --- Lone operations

TEST_F(PostgresStoreTest, LoneOperationIsSentByItsCallerAndAnsweredOnTheStoresThread) {
  rig_.waitUntilUp();
  rig_.block();
  // The store's thread may be awake for reasons of its own.
  bool sent = false;
  for (int i = 0; i < 200 && !sent; ++i) {
    ASSERT_TRUE(eventually([&] { return store().queuedOperations() == 0; }));
    const uint64_t before = store().stats().batches;
    std::thread::id answered_on;
    Answer<store::ClaimResult> answer;
    store().claim(request(fmt::format("lone{}", i)), soon(),
                  [&, done = answer.callback()](store::ClaimResult result) {
                    answered_on = std::this_thread::get_id();
                    done(std::move(result));
                  });
    sent = store().stats().batches == before + 1;
    EXPECT_EQ(answer.calls(), 0);
    rig_.unblock();
    EXPECT_TRUE(std::holds_alternative<store::Claimed>(answer.get()));
    EXPECT_NE(answered_on, std::this_thread::get_id());
    rig_.block();
  }
  rig_.unblock();
  EXPECT_TRUE(sent);
}

TEST_F(PostgresStoreTest, LoneOperationOnASessionThatHasEndedIsAnswered) {
  for (int i = 0; i < 20; ++i) {
    rig_.waitUntilUp();
    rig_.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND datname = current_database()");
    const store::ClaimResult result = claim(request(fmt::format("ended{}", i)), in(5s));
    EXPECT_FALSE(std::holds_alternative<store::Exists>(result)) << describe(result);
  }
  EXPECT_TRUE(eventually(
      [&] { return std::holds_alternative<store::Claimed>(claim(request("after"), in(1s))); }));
}

TEST_F(PostgresStoreTest, LoneOperationWithAShortDeadlineIsToldInTime) {
  rig_.waitUntilUp();
  rig_.block();
  const auto begin = std::chrono::steady_clock::now();
  const store::ClaimResult result = claim(request("hasty"), in(50ms));
  EXPECT_TRUE(std::holds_alternative<store::InDoubt>(result)) << describe(result);
  // Half of the store's time-out is how long its thread may sleep; in() is much less.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  rig_.unblock();
}

TEST_F(PostgresStoreTest, LoneOperationPastItsDeadlineIsNeverSent) {
  rig_.waitUntilUp();
  const uint64_t before = store().stats().batches;
  // Most of them find the store's thread asleep.
  for (int i = 0; i < 100; ++i) {
    const store::ClaimResult result = claim(request(fmt::format("late{}", i)), in(-1ms));
    ASSERT_TRUE(std::holds_alternative<store::Unavailable>(result)) << describe(result);
  }
  EXPECT_EQ(store().stats().batches, before);
  EXPECT_TRUE(store().stats().last_error.empty()) << "no fault of the server";
  EXPECT_TRUE(std::holds_alternative<store::Claimed>(claim(request("timely"))));
}

// --- Lost connections

TEST_F(PostgresStoreTest, ClaimThatNeverReachedTheServerIsInDoubtAndTheKeyStaysFree) {
  rig_.waitUntilUp();
  rig_.proxy().loseNextRequest();
  const store::ClaimResult result = claim(request("lost"));
  EXPECT_TRUE(std::holds_alternative<store::InDoubt>(result)) << describe(result);
  mustClaim("lost");
}

TEST_F(PostgresStoreTest, AnswerCutAnywhereIsInDoubtUntilTheSyncIsWhole) {
  // The answer to a claim is about 80 bytes; after its last byte the claim is ours.
  int in_doubt = 0;
  for (int bytes = 0; bytes < 400; bytes += 7) {
    rig_.waitUntilUp();
    rig_.proxy().cutNextAnswerAfter(bytes);
    const std::string key = fmt::format("cut{}", bytes);
    const store::ClaimRequest wanted = request(key);
    const store::ClaimResult result = claim(wanted);
    if (std::holds_alternative<store::Claimed>(result)) {
      EXPECT_EQ(
          rig_.sql(fmt::format("SELECT attempt FROM idempotency.record WHERE key = '{}'", key)),
          (TextRows{{std::to_string(wanted.attempt)}}))
          << "acknowledged, so it stays";
      break;
    }
    ++in_doubt;
    EXPECT_TRUE(std::holds_alternative<store::InDoubt>(result))
        << bytes << ": " << describe(result);
    EXPECT_TRUE(eventually([&] {
      return rig_.sql(fmt::format("SELECT FROM idempotency.record WHERE key = '{}'", key)).empty();
    })) << bytes
        << ": the store settles it";
  }
  EXPECT_GT(in_doubt, 3);
  EXPECT_LT(in_doubt, 57) << "in the end it came through";
}

TEST_F(PostgresStoreTest, ClaimThatTheServerCarriesOutAfterTheLossIsReleasedThen) {
  // The connection is cut while the server still waits for a lock: the insert comes later.
  rig_.waitUntilUp();
  rig_.block();
  Answer<store::ClaimResult> answer;
  store().claim(request("late"), in(200ms), answer.callback());
  EXPECT_TRUE(std::holds_alternative<store::InDoubt>(answer.get()));
  rig_.unblock();
  EXPECT_TRUE(eventually([&] {
    return rig_.sql(
               "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
               " AND state = 'active' AND query LIKE 'INSERT INTO idempotency.record%'")[0][0] ==
           "0";
  })) << "the server carries out what it was sent";
  EXPECT_TRUE(eventually([&] { return rowCount() == 0; }));
  mustClaim("late");
}

TEST_F(PostgresStoreTest, LookUpIsAskedAgainWhenItsConnectionIsLost) {
  const store::ClaimRef ref = mustClaim("found");
  rig_.waitUntilUp();
  rig_.proxy().loseNextRequest();
  Answer<store::LookUpResult> answer;
  store().lookUp(ref.identity, soon(), answer.callback());
  EXPECT_TRUE(std::holds_alternative<store::Record>(answer.get()));
}

TEST_F(PostgresStoreTest, SilentServerIsLeftAtTheDeadlineAndFoundAgain) {
  rig_.stop();
  rig_.start(300ms);
  rig_.waitUntilUp();
  rig_.proxy().setSilent(true);
  const auto start = std::chrono::steady_clock::now();
  const store::ClaimResult result = claim(request("silent"), in(200ms));
  EXPECT_TRUE(std::holds_alternative<store::InDoubt>(result)) << describe(result);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);
  EXPECT_TRUE(eventually([&] { return store().stats().connections_lost > 0; }));
  rig_.proxy().setSilent(false);
  EXPECT_TRUE(eventually(
      [&] { return std::holds_alternative<store::Claimed>(claim(request("again"), in(1s))); }));
}

TEST_F(PostgresStoreTest, DeadlineOfOneDoesNotEndTheOthersOfItsBatch) {
  rig_.waitUntilUp();
  rig_.block();
  // Fill every connection, so that the next ones share a batch.
  std::vector<Answer<store::ClaimResult>> first(4);
  for (size_t i = 0; i < first.size(); ++i) {
    store().claim(request(fmt::format("first{}", i)), soon(), first[i].callback());
    ASSERT_TRUE(eventually([&] { return store().stats().batches == i + 1; }));
  }
  Answer<store::ClaimResult> patient;
  Answer<store::ClaimResult> hasty;
  store().claim(request("patient"), soon(), patient.callback());
  store().claim(request("hasty"), in(100ms), hasty.callback());
  EXPECT_TRUE(std::holds_alternative<store::Unavailable>(hasty.get())) << "it was not sent";
  rig_.unblock();
  EXPECT_TRUE(std::holds_alternative<store::Claimed>(patient.get()));
  for (const auto& answer : first) {
    EXPECT_TRUE(std::holds_alternative<store::Claimed>(answer.get()));
  }
  EXPECT_EQ(store().stats().connections_lost, 0U);
}

TEST_F(PostgresStoreTest, StopWritesHowAttemptsEndedAndRefusesWhatWantsToBegin) {
  rig_.stop();
  rig_.start(5s, false, "", 20'000, /*connections=*/1);
  std::vector<store::ClaimRef> refs;
  for (int i = 0; i < 200; ++i) {
    refs.push_back(mustClaim(fmt::format("ends{}", i)));
  }
  rig_.block();
  // The one connection is busy: what follows waits.
  Answer<store::ClaimResult> busy;
  const uint64_t batches = store().stats().batches;
  store().claim(request("busy"), soon(), busy.callback());
  ASSERT_TRUE(eventually([&] { return store().stats().batches == batches + 1; }));
  std::vector<Answer<store::WriteResult>> ended(refs.size());
  for (size_t i = 0; i < refs.size(); ++i) {
    store().settle(refs[i], protocol::Unknown{"stopped", std::nullopt}, soon(),
                   ended[i].callback());
  }
  Answer<store::ClaimResult> begins;
  store().claim(request("begins"), soon(), begins.callback());
  // The new claim is refused at once, which tells that the stop has begun.
  std::thread unblock([&] {
    begins.get();
    rig_.unblock();
  });
  rig_.stop();
  unblock.join();
  EXPECT_TRUE(std::holds_alternative<store::Unavailable>(begins.get()));
  for (const auto& answer : ended) {
    EXPECT_EQ(answer.get().outcome, store::WriteOutcome::Done) << answer.get().reason;
  }
  EXPECT_EQ(rig_.sql("SELECT count(*) FROM idempotency.record WHERE state = 4")[0][0], "200");
  rig_.start();
}

TEST_F(PostgresStoreTest, SessionsThatTheServerEndedAreReopenedBeforeTheyAreNeeded) {
  rig_.waitUntilUp();
  rig_.sql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
      " WHERE datname = current_database() AND pid <> pg_backend_pid()");
  ASSERT_TRUE(eventually([&] { return store().stats().connections_lost >= 4; }));
  rig_.waitUntilUp();
  mustClaim("after");
}

TEST_F(PostgresStoreTest, AnswersInSingleBytesAreUnderstood) {
  rig_.stop();
  rig_.proxy().setPieceSize(1);
  rig_.start();
  for (int i = 0; i < 10; ++i) {
    const store::ClaimRef ref = mustClaim(fmt::format("piece{}", i));
    ASSERT_EQ(complete(ref), store::WriteOutcome::Done);
    const store::ClaimResult result = claim(request(fmt::format("piece{}", i)));
    ASSERT_TRUE(std::holds_alternative<store::Exists>(result));
    EXPECT_EQ(std::get<store::Exists>(result).record.response, "response");
  }
}

// --- Refusals at connect

class RefusalTest : public PostgresStoreTest {
protected:
  // Makes a store anew; the reason why it is of no use.
  std::string reasonAfterRestart() {
    rig_.stop();
    rig_.start();
    const store::ClaimResult result = claim(request("x"), in(300ms));
    EXPECT_TRUE(std::holds_alternative<store::Unavailable>(result)) << describe(result);
    EXPECT_TRUE(eventually([&] { return !store().stats().last_error.empty(); }));
    return store().stats().last_error;
  }
  std::string database() { return rig_.sql("SELECT current_database()")[0][0]; }
};

// With what level each claim is committed.
class DurabilityTest : public RefusalTest {
protected:
  DurabilityTest() {
    rig_.sql(
        "CREATE TABLE seen (level text); GRANT ALL ON seen TO PUBLIC;"
        "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
        " INSERT INTO public.seen VALUES (current_setting('synchronous_commit')); RETURN NEW; "
        "END$$;"
        "CREATE TRIGGER see BEFORE INSERT ON idempotency.record FOR EACH ROW EXECUTE FUNCTION "
        "see()");
  }
  ~DurabilityTest() override {
    rig_.stop();
    rig_.sql("ALTER SYSTEM RESET ALL");
    reload();
    rig_.sql(fmt::format("ALTER DATABASE {} RESET ALL", database()));
    rig_.sql("DROP TRIGGER see ON idempotency.record; DROP FUNCTION see(); DROP TABLE seen");
  }
  std::string levelOfAClaim() {
    rig_.sql("TRUNCATE seen");
    mustClaim(fmt::format("level{}", ++claims_));
    return rig_.sql("SELECT level FROM seen")[0][0];
  }
  // Of the running server; in force for every session when this returns.
  void set(const std::string& name, const std::string& value) {
    rig_.sql(fmt::format("ALTER SYSTEM SET {} = {}", name, value));
    reload();
    ASSERT_TRUE(eventually([&] { return rig_.sql("SHOW " + name)[0][0] == value; }));
  }
  void reload() { rig_.sql("SELECT pg_reload_conf()"); }

private:
  int claims_ = 0;
};

TEST_F(DurabilityTest, SynchronousCommitIsRaisedToOnAndNeverLowered) {
  struct Case {
    const char* found;
    const char* used;
    const char* allowed;  // With allow_asynchronous_commit.
  };
  for (const Case& test : {Case{"off", "on", "off"}, Case{"local", "on", "local"},
                           Case{"remote_write", "on", "remote_write"}, Case{"on", "on", "on"},
                           Case{"remote_apply", "remote_apply", "remote_apply"}}) {
    rig_.sql(fmt::format("ALTER DATABASE {} SET synchronous_commit = {}", database(), test.found));
    for (const bool allow : {false, true}) {
      rig_.stop();
      rig_.start(5s, allow);
      EXPECT_EQ(levelOfAClaim(), allow ? test.allowed : test.used) << test.found;
    }
  }
}

TEST_F(DurabilityTest, ReloadThatLowersSynchronousCommitChangesNothing) {
  EXPECT_EQ(levelOfAClaim(), "on");
  set("synchronous_commit", "off");
  // Longer than a look at the server counts.
  for (const store::Deadline end = in(1500ms); std::chrono::steady_clock::now() < end;) {
    ASSERT_EQ(levelOfAClaim(), "on");
  }
  EXPECT_EQ(store().stats().connections_lost, 0U);
}

TEST_F(DurabilityTest, ReloadThatRaisesSynchronousCommitIsTakenOver) {
  EXPECT_EQ(levelOfAClaim(), "on");
  set("synchronous_commit", "remote_apply");
  EXPECT_TRUE(eventually([&] { return levelOfAClaim() == "remote_apply"; }));
  set("synchronous_commit", "local");
  EXPECT_TRUE(eventually([&] { return levelOfAClaim() == "on"; }));
}

TEST_F(DurabilityTest, ServerThatAReloadMakesUnsafeCountsAsDownWithinASecond) {
  for (const std::string name : {"fsync", "full_page_writes"}) {
    mustClaim("before " + name);
    set(name, "off");
    const auto weakened = std::chrono::steady_clock::now();
    // Requests all the time: the last one that is granted comes soon.
    auto granted = weakened;
    int grants = 0;
    store::ClaimResult result;
    for (int i = 0; std::chrono::steady_clock::now() < weakened + 4s; ++i) {
      result = claim(request(fmt::format("{} {}", name, i)), in(1s));
      if (std::holds_alternative<store::Claimed>(result)) {
        granted = std::chrono::steady_clock::now();
        ++grants;
      }
    }
    EXPECT_LT(granted - weakened, 2s)
        << "the look counts for half a second; a busy machine is slow";
    EXPECT_FALSE(std::holds_alternative<store::Claimed>(result));
    EXPECT_THAT(store().stats().last_error, HasSubstr(name + " is off on this server"));
    EXPECT_NE(store().stats().breaker, postgres::Breaker::State::Closed);
    set(name, "on");
    EXPECT_TRUE(eventually([&] {
      return std::holds_alternative<store::Claimed>(claim(request("after " + name), in(500ms)));
    })) << "without a restart";
    // What was committed on the weak server and not granted is taken back.
    EXPECT_TRUE(eventually([&] {
      return rig_.sql(
                 fmt::format("SELECT count(*) FROM idempotency.record WHERE key LIKE '{} %'::bytea",
                             name))[0][0] == std::to_string(grants);
    }));
    rig_.waitUntilUp();
  }
}

TEST_F(DurabilityTest, ServerWithoutFsyncIsRefusedAtConnect) {
  set("fsync", "off");
  EXPECT_THAT(reasonAfterRestart(), HasSubstr("fsync is off on this server"));
  // allow_asynchronous_commit is about something else.
  rig_.stop();
  rig_.start(5s, /*allow_asynchronous_commit=*/true);
  EXPECT_TRUE(std::holds_alternative<store::Unavailable>(claim(request("x"), in(300ms))));
}

TEST_F(RefusalTest, ReadOnlyDatabase) {
  rig_.sql(fmt::format("ALTER DATABASE {} SET default_transaction_read_only = on", database()));
  EXPECT_THAT(reasonAfterRestart(), HasSubstr("read-only"));
  query(rig_.conninfo() + " options='-c default_transaction_read_only=off'",
        fmt::format("ALTER DATABASE {} RESET ALL", database()));
  EXPECT_TRUE(eventually([&] {
    return std::holds_alternative<store::Claimed>(claim(request("writable"), in(500ms)));
  })) << "without a restart";
}

TEST_F(RefusalTest, SchemaThatIsTooOld) {
  rig_.sql("UPDATE idempotency.schema_version SET version = version - 1000");
  EXPECT_THAT(reasonAfterRestart(), HasSubstr("run idempotencyctl migrate"));
  rig_.sql("UPDATE idempotency.schema_version SET version = version + 1000");
  EXPECT_TRUE(eventually([&] {
    return std::holds_alternative<store::Claimed>(claim(request("migrated"), in(500ms)));
  })) << "without a restart";
}

TEST_F(RefusalTest, NewerSchemaWorksUnlessItSaysOtherwise) {
  rig_.sql(
      "INSERT INTO idempotency.schema_version (version, name, checksum, compatible_with)"
      " VALUES (1000, 'later', '', 1)");
  rig_.stop();
  rig_.start();
  mustClaim("side by side");
  rig_.sql("UPDATE idempotency.schema_version SET compatible_with = 1000 WHERE version = 1000");
  EXPECT_THAT(reasonAfterRestart(), HasSubstr("newer module"));
  rig_.sql("DELETE FROM idempotency.schema_version WHERE version = 1000");
}

TEST_F(RefusalTest, MissingSchema) {
  rig_.sql("ALTER SCHEMA idempotency RENAME TO elsewhere");
  EXPECT_THAT(reasonAfterRestart(), HasSubstr("idempotencyctl migrate"));
  rig_.sql("ALTER SCHEMA elsewhere RENAME TO idempotency");
}

TEST_F(RefusalTest, SchemaThatLacksAColumn) {
  rig_.sql("ALTER TABLE idempotency.record RENAME COLUMN recovery_point TO other");
  EXPECT_THAT(reasonAfterRestart(), HasSubstr("not as expected"));
  rig_.sql("ALTER TABLE idempotency.record RENAME COLUMN other TO recovery_point");
}

TEST_F(RefusalTest, RoleWithoutRights) {
  rig_.sql("CREATE ROLE nobody_special LOGIN");
  rig_.stop();
  rig_.start(5s, false, "user=nobody_special");
  claim(request("x"), in(300ms));
  EXPECT_TRUE(eventually([&] { return !store().stats().last_error.empty(); }));
  EXPECT_THAT(store().stats().last_error, HasSubstr("idempotency_filter"));
  rig_.stop();
  rig_.sql("DROP ROLE nobody_special");
}

// libpq refuses these two at once, so no wait lies between them.
TEST_F(RefusalTest, EveryHostThatFailedIsNamed) {
  rig_.stop();
  rig_.start(5s, false, "host=/nowhere/first,/nowhere/second");
  claim(request("x"), in(300ms));
  EXPECT_TRUE(eventually([&] { return !store().stats().last_error.empty(); }));
  EXPECT_THAT(store().stats().last_error, HasSubstr("/nowhere/first"));
  EXPECT_THAT(store().stats().last_error, HasSubstr("/nowhere/second"));
}

TEST_F(RefusalTest, TableThatIsDroppedWhileTheStoreRuns) {
  mustClaim("before");
  rig_.sql("ALTER TABLE idempotency.record RENAME TO hidden");
  const store::ClaimResult result = claim(request("without"), in(2s));
  EXPECT_TRUE(std::holds_alternative<store::Unavailable>(result)) << describe(result);
  rig_.sql("ALTER TABLE idempotency.hidden RENAME TO record");
  EXPECT_TRUE(eventually([&] {
    return std::holds_alternative<store::Claimed>(claim(request("after"), in(500ms)));
  })) << "without a restart: "
      << store().stats().last_error;
}

TEST_F(PostgresStoreTest, RoleOfTheFilterMayDoAllThatTheStoreDoes) {
  rig_.sql("CREATE ROLE gateway LOGIN IN ROLE idempotency_filter");
  rig_.stop();
  rig_.start(5s, false, "user=gateway");
  const store::ClaimRef ref = mustClaim("least");
  EXPECT_EQ(complete(ref), store::WriteOutcome::Done);
  EXPECT_TRUE(std::holds_alternative<store::Exists>(claim(request("least"))));
  const store::ClaimRef released = mustClaim("released");
  store().abandon(released);
  EXPECT_TRUE(eventually([&] { return rowCount() == 1; }));
  Answer<store::Leadership> led;
  store().lead("me", 1h, soon(), led.callback());
  EXPECT_TRUE(led.get().ours) << led.get().reason;
  mustClaim("running");
  rig_.passTime(25h);
  Answer<store::MaintenanceResult> swept;
  store().sweep(10, 1h, soon(), swept.callback());
  EXPECT_EQ(swept.get().to_unknown, 1U) << swept.get().reason;
  Answer<store::MaintenanceResult> reaped;
  store().reap(10, false, soon(), reaped.callback());
  EXPECT_EQ(reaped.get().deleted, 1U) << reaped.get().reason;
  EXPECT_THROW(query(rig_.conninfo() + " user=gateway", "DELETE FROM idempotency.audit"),
               std::runtime_error);
  EXPECT_THROW(query(rig_.conninfo() + " user=gateway", "SELECT * FROM idempotency.audit"),
               std::runtime_error);
  EXPECT_THROW(query(rig_.conninfo() + " user=gateway", "DROP TABLE idempotency.record"),
               std::runtime_error);
  EXPECT_THROW(query(rig_.conninfo() + " user=gateway", "CREATE TABLE idempotency.mine ()"),
               std::runtime_error);
  rig_.stop();
  rig_.sql("DROP ROLE gateway");
}

// --- The queue's bound

TEST_F(PostgresStoreTest, FullQueueRefusesAtOnceAndKeepsRoomForWhatRan) {
  std::vector<store::ClaimRef> running;
  for (int i = 0; i < 4; ++i) {
    running.push_back(mustClaim(fmt::format("running{}", i)));
  }
  rig_.stop();
  rig_.start(5s, false, "", /*queue_operations=*/100);
  rig_.waitUntilUp();
  rig_.block();
  std::vector<Answer<store::ClaimResult>> claims(100);
  for (size_t i = 0; i < claims.size(); ++i) {
    store().claim(request(fmt::format("new{}", i)), soon(), claims[i].callback());
  }
  size_t refused = 0;
  EXPECT_TRUE(eventually([&] {
    refused = static_cast<size_t>(std::count_if(
        claims.begin(), claims.end(), [](const auto& answer) { return answer.calls() > 0; }));
    return refused == 25;
  })) << refused;
  for (const auto& answer : claims) {
    if (answer.calls() > 0) {
      const store::ClaimResult result = answer.get();
      EXPECT_TRUE(std::get<store::Unavailable>(result).queue_full);
    }
  }
  std::vector<Answer<store::WriteResult>> completions(running.size());
  for (size_t i = 0; i < running.size(); ++i) {
    store().settle(running[i], completion(), soon(), completions[i].callback());
  }
  EXPECT_EQ(store().queuedOperations(), 79U);
  rig_.unblock();
  for (const auto& answer : completions) {
    EXPECT_EQ(answer.get().outcome, store::WriteOutcome::Done);
  }
  size_t claimed = 0;
  for (const auto& answer : claims) {
    claimed += std::holds_alternative<store::Claimed>(answer.get()) ? 1 : 0;
  }
  EXPECT_EQ(claimed, 75U);
  EXPECT_TRUE(eventually([&] { return store().queuedOperations() == 0; }));
  EXPECT_EQ(store().queuedBytes(), 0U);
}

// --- Plans and pages

// EXPLAIN of a prepared statement, in a session as the store makes it.
class PlanTest : public PostgresStoreTest {
protected:
  std::string plan(postgres::StatementId id, const std::string& values) {
    const PqConnection connection(PQconnectdb(rig_.conninfo().c_str()));
    EXPECT_EQ(PQenterPipelineMode(connection.get()), 1);
    EXPECT_TRUE(postgres::sendSessionSetup(connection.get(), {}, 0));
    std::vector<PqResult> results;
    while (results.size() < postgres::sessionSetupResults()) {
      results.emplace_back(PQgetResult(connection.get()));
      if (results.back() == nullptr) {
        results.pop_back();
      }
    }
    EXPECT_TRUE(postgres::checkSession(results).ok());
    while (PqResult(PQgetResult(connection.get())) == nullptr) {
    }
    EXPECT_EQ(PQexitPipelineMode(connection.get()), 1) << PQerrorMessage(connection.get());
    const std::string sql =
        fmt::format("EXPLAIN (COSTS OFF) EXECUTE {}({})", postgres::statement(id).name, values);
    const PqResult result(PQexec(connection.get(), sql.c_str()));
    EXPECT_EQ(PQresultStatus(result.get()), PGRES_TUPLES_OK) << PQerrorMessage(connection.get());
    std::string text;
    for (int row = 0; row < PQntuples(result.get()); ++row) {
      text += std::string(PQgetvalue(result.get(), row, 0)) + "\n";
    }
    return text;
  }

  // All that the request path sends, on tables as they are now.
  void expectPrimaryKey() {
    using postgres::StatementId;
    const std::string identity = "'t', 'o', 'k'";
    const std::string identities = "'{t,u}', '{o,o}', '{k,l}'";
    EXPECT_THAT(plan(StatementId::Claim, identity + ", 1, 0::int2, 'f', 1, 1, 0::int2"),
                HasSubstr("Conflict Arbiter Indexes: record_pkey"));
    EXPECT_THAT(plan(StatementId::ClaimMany,
                     identities + ", '{1,2}', '{0,0}', '{f,f}', '{1,1}', '{1,1}', '{0,0}'"),
                HasSubstr("Conflict Arbiter Indexes: record_pkey"));
    EXPECT_THAT(plan(StatementId::ReadUse, "'t'"), HasSubstr("Index Scan on tenant_use_pkey"));
    EXPECT_THAT(plan(StatementId::ChangeUse, "'{t,u}', '{1,2}'"),
                HasSubstr("Index Scan on tenant_use_pkey"));
    const std::pair<StatementId, std::string> by_key[] = {
        {StatementId::ReadRecord, identity},
        {StatementId::ReadRecordMany, identities},
        {StatementId::Complete, identity + ", 1, 200::int2, 1::int2, NULL, 'b'"},
        {StatementId::CompleteMany,
         identities + ", '{1,2}', '{200,200}', '{1,1}', '{-1,-1}', '{b,b}'"},
        {StatementId::CompleteBare, identity + ", 1, 200::int2, 1::int2, NULL, 1::int2"},
        {StatementId::Fail, identity + ", 1, 'e'"},
        {StatementId::Release, identity + ", 1"},
        {StatementId::MarkUnknown, identity + ", 1, 'e', NULL"},
        {StatementId::Extend, identities + ", '{1,2}', 1"},
        {StatementId::Reclaim, identity + ", 1, 0::int2, 'f', 1, 1, 0::int2, true, 3::int2, 1"},
    };
    for (const auto& [id, values] : by_key) {
      const std::string text = plan(id, values);
      EXPECT_THAT(text, HasSubstr("Bitmap Index Scan on record_pkey")) << text;
      EXPECT_THAT(text, HasSubstr("Index Cond: ((tenant = ")) << text;
      EXPECT_THAT(text, Not(HasSubstr("Seq Scan"))) << text;
    }
    const std::string response =
        plan(StatementId::ReadResponses,
             "'{1,2}', now() + interval '1 hour', now() + interval '1 hour'");
    EXPECT_THAT(response, HasSubstr("Subplans Removed: ")) << response;
    EXPECT_THAT(response, HasSubstr("Index Cond: ((attempt = ANY")) << response;
    EXPECT_THAT(response, Not(HasSubstr("Seq Scan"))) << response;
  }
};

TEST_F(PlanTest, RequestPathUsesThePrimaryKeyOnATableWithoutStatistics) {
  expectPrimaryKey();
}

TEST_F(PlanTest, RequestPathUsesThePrimaryKeyOnATableThatIsKnownToBeTiny) {
  // With a single row the planner cannot do without a scan: see the next test.
  mustClaim("one");
  mustClaim("two");
  rig_.sql("VACUUM ANALYZE idempotency.record");
  rig_.sql("ANALYZE idempotency.response");
  expectPrimaryKey();
}

TEST_F(PlanTest, PlanThatScansATableOfOneRowDoesNotOutliveItsGrowth) {
  rig_.stop();
  rig_.sql("VACUUM FULL idempotency.record");  // What other tests deleted would count as pages.
  rig_.start();
  const store::ClaimRef only = mustClaim("only");
  rig_.sql("VACUUM ANALYZE idempotency.record");
  rig_.stop();
  rig_.start(5s, false, "", 20'000, /*connections=*/1);
  const auto completeTwo = [&](const store::ClaimRef& a, const store::ClaimRef& b) {
    rig_.block();
    // One waits, so that the next two share a statement.
    Answer<store::LookUpResult> first;
    store().lookUp(a.identity, soon(), first.callback());
    EXPECT_TRUE(eventually([&] { return somebodyWaits(); }));
    std::vector<Answer<store::WriteResult>> answers(2);
    store().settle(a, completion(), soon(), answers[0].callback());
    store().settle(b, completion(), soon(), answers[1].callback());
    rig_.unblock();
    return answers[0].get().outcome == store::WriteOutcome::Done;
  };
  EXPECT_TRUE(completeTwo(only, {identity("nobody's"), 7}));
  rig_.sql(
      "INSERT INTO idempotency.record (tenant, operation, key, attempt, state, fingerprint, "
      "lease_until,"
      " expires_at, reap_at, claimed_at, created_at) SELECT 'tenant', 'operation', i::text::bytea, "
      "i,"
      " 1, 'f', now(), now() + interval '1 day', now(), now(), now() FROM generate_series(1, "
      "20000) i");
  const auto rowsRead = [&] {
    return std::stoll(
        rig_.sql("SELECT idx_tup_read FROM pg_stat_user_indexes"
                 " WHERE indexrelname = 'record_pkey'")[0][0]);
  };
  const store::ClaimRef another = mustClaim("another");
  std::this_thread::sleep_for(6s);  // A plan's life.
  const auto before = rowsRead();
  EXPECT_TRUE(completeTwo(another, {identity("nobody's"), 7}));
  rig_.stop();  // Its counts are told now.
  std::this_thread::sleep_for(1s);
  EXPECT_LT(rowsRead() - before, 1000);
}

TEST_F(PlanTest, RequestPathUsesThePrimaryKeyOnALargeTable) {
  rig_.sql(
      "INSERT INTO idempotency.record (tenant, operation, key, attempt, state, fingerprint, "
      "lease_until,"
      " expires_at, reap_at, claimed_at, created_at) SELECT 'tenant', 'operation', i::text::bytea, "
      "i,"
      " 1, 'f', now(), now() + interval '1 day', now(), now(), now() FROM generate_series(1, "
      "20000) i");
  rig_.sql("VACUUM ANALYZE idempotency.record");
  expectPrimaryKey();
}

TEST_F(PostgresStoreTest, CompletionIsAHotUpdate) {
  constexpr int Lives = 2000;
  rig_.sql("TRUNCATE idempotency.record");  // Pages as other tests left them would disturb.
  const auto updates = [&] {
    const auto row = rig_.sql(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
        " WHERE relid = 'idempotency.record'::regclass")[0];
    return std::pair(std::stoll(row[0]), std::stoll(row[1]));
  };
  const auto before = updates();
  std::vector<Answer<store::WriteResult>> answers(Lives);
  for (int first = 0; first < Lives; first += 500) {
    std::vector<store::ClaimRequest> requests;
    std::vector<Answer<store::ClaimResult>> claims(500);
    for (size_t i = 0; i < claims.size(); ++i) {
      requests.push_back(request(fmt::format("hot{}", first + static_cast<int>(i))));
      requests[i].own_transaction = i % 3 == 0;
      store().claim(requests[i], soon(), claims[i].callback());
    }
    for (size_t i = 0; i < claims.size(); ++i) {
      ASSERT_TRUE(std::holds_alternative<store::Claimed>(claims[i].get()));
      protocol::Completed completed = completion();
      if (i % 2 == 0) {
        completed.ttl = 48h;  // A new life changes no index either.
      }
      store().settle({requests[i].identity, requests[i].attempt}, completed, soon(),
                     answers[static_cast<size_t>(first) + i].callback());
    }
  }
  for (const auto& answer : answers) {
    ASSERT_EQ(answer.get().outcome, store::WriteOutcome::Done);
  }
  // Sessions tell their counts when they are idle for a while, and at their end.
  rig_.stop();
  EXPECT_TRUE(eventually([&] { return updates().first - before.first >= Lives; }));
  const auto after = updates();
  EXPECT_GE(static_cast<double>(after.second - before.second),
            0.98 * static_cast<double>(after.first - before.first));
}

TEST_F(PostgresStoreTest, KeysAreUniqueInOneTable) {
  EXPECT_EQ(rig_.sql("SELECT relkind FROM pg_class WHERE oid = 'idempotency.record'::regclass"),
            (TextRows{{"r"}}))
      << "partitions by time would let a key be claimed once in each";
  EXPECT_EQ(rig_.sql("SELECT pg_get_constraintdef(oid) FROM pg_constraint"
                     " WHERE conrelid = 'idempotency.record'::regclass AND contype = 'p'"),
            (TextRows{{"PRIMARY KEY (tenant, operation, key)"}}));
}

TEST_F(PostgresStoreTest, NoIndexHoldsWhatACompletionChanges) {
  EXPECT_EQ(
      rig_.sql("SELECT DISTINCT a.attname FROM pg_index i JOIN pg_attribute a"
               " ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)"
               " WHERE i.indrelid = 'idempotency.record'::regclass ORDER BY 1"),
      (TextRows{{"attempt"}, {"claimed_at"}, {"key"}, {"operation"}, {"reap_at"}, {"tenant"}}));
  // One index holds a part of the records alone; a completion never changes which.
  EXPECT_EQ(rig_.sql("SELECT pg_get_expr(indpred, indrelid) FROM pg_index"
                     " WHERE indrelid = 'idempotency.record'::regclass"
                     " AND (indpred IS NOT NULL OR indexprs IS NOT NULL)"),
            (TextRows{{"own_transaction"}}));
}

// Either is parsed for each statement again: a tenth of a claim.
TEST_F(PostgresStoreTest, RecordsHaveNeitherTriggersNorChecks) {
  EXPECT_EQ(
      rig_.sql("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'idempotency.record'::regclass"),
      (TextRows{{"0"}}));
  EXPECT_EQ(rig_.sql("SELECT count(*) FROM pg_constraint"
                     " WHERE conrelid = 'idempotency.record'::regclass AND contype = 'c'"),
            (TextRows{{"0"}}));
}

// What is kept about unknown records is written when they become unknown, and by no other request.
TEST_F(PlanTest, OnlyMarkingUnknownTouchesTheTableOfUnknownRecords) {
  using postgres::StatementId;
  const std::string identity = "'t', 'o', 'k'";
  EXPECT_THAT(plan(StatementId::MarkUnknown, identity + ", 1, 'e', NULL"),
              HasSubstr("Insert on unsettled"));
  const std::pair<StatementId, std::string> others[] = {
      {StatementId::Claim, identity + ", 1, 0::int2, 'f', 1, 1, 0::int2"},
      {StatementId::Complete, identity + ", 1, 200::int2, 1::int2, NULL, 'b'"},
      {StatementId::Fail, identity + ", 1, 'e'"},
      {StatementId::Release, identity + ", 1"},
      {StatementId::ReadRecord, identity},
  };
  for (const auto& [id, values] : others) {
    EXPECT_THAT(plan(id, values), Not(HasSubstr("unsettled")));
  }
}

// --- Partitions and the sweeper's walk

TEST_F(PostgresStoreTest, PartitionsAreMadeAheadAndDroppedWhenPast) {
  const auto partitions = [&] {
    return rig_.sql(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE "
        "i.inhparent ="
        " 'idempotency.response'::regclass AND c.relname ~ '[0-9]$' ORDER BY 1");
  };
  const TextRows all = partitions();
  EXPECT_EQ(all.size(), 36U);
  // As if the jobs had not run for days, and an old one had been left.
  rig_.sql(fmt::format("DROP TABLE idempotency.{}, idempotency.{}", all[30][0], all[35][0]));
  rig_.sql(
      "CREATE TABLE idempotency.response_20200101 PARTITION OF idempotency.response"
      " FOR VALUES FROM ('2020-01-01 00:00+00') TO ('2020-01-02 00:00+00')");
  Answer<store::MaintenanceResult> answer;
  store().reap(10, false, soon(), answer.callback());
  EXPECT_TRUE(answer.get().ok) << answer.get().reason;
  EXPECT_EQ(partitions(), all);
}

TEST_F(PostgresStoreTest, PartitionWorkGivesWayToTraffic) {
  rig_.sql(
      "CREATE TABLE idempotency.response_20200101 PARTITION OF idempotency.response"
      " FOR VALUES FROM ('2020-01-01 00:00+00') TO ('2020-01-02 00:00+00')");
  Stranger reader(rig_.conninfo());
  reader.run("BEGIN; SELECT count(*) FROM idempotency.response");
  const auto start = std::chrono::steady_clock::now();
  Answer<store::MaintenanceResult> answer;
  store().reap(10, false, soon(), answer.callback());
  EXPECT_TRUE(answer.get().ok) << "the rest is done all the same: " << answer.get().reason;
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  reader.run("COMMIT");
  Answer<store::MaintenanceResult> again;
  store().reap(10, false, soon(), again.callback());
  EXPECT_TRUE(again.get().ok);
  EXPECT_EQ(rig_.sql("SELECT to_regclass('idempotency.response_20200101')")[0][0], "NULL");
}

TEST_F(PostgresStoreTest, ResponseFindsAPlaceWithoutItsPartition) {
  rig_.sql(
      "DO $$ DECLARE p text; BEGIN FOR p IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON"
      " c.oid = i.inhrelid WHERE i.inhparent = 'idempotency.response'::regclass AND c.relname ~"
      " '[0-9]$' LOOP EXECUTE 'DROP TABLE idempotency.' || p; END LOOP; END $$");
  const store::ClaimRef ref = mustClaim("default");
  EXPECT_EQ(complete(ref), store::WriteOutcome::Done);
  store::ClaimResult result = claim(request("default"));
  ASSERT_TRUE(std::holds_alternative<store::Exists>(result));
  EXPECT_EQ(std::get<store::Exists>(result).record.response, "response");
  // The partitions come back around it, and it is deleted when its time is over.
  Answer<store::MaintenanceResult> made;
  store().reap(10, false, soon(), made.callback());
  EXPECT_TRUE(made.get().ok) << made.get().reason;
  result = claim(request("default"));
  ASSERT_TRUE(std::holds_alternative<store::Exists>(result));
  EXPECT_EQ(std::get<store::Exists>(result).record.response, "response");
  rig_.passTime(49h);
  Answer<store::MaintenanceResult> reaped;
  store().reap(10, false, soon(), reaped.callback());
  EXPECT_EQ(reaped.get().deleted, 1U);
  EXPECT_EQ(rig_.sql("SELECT count(*) FROM idempotency.response")[0][0], "0");
  // So that the next test finds all of them.
  rig_.sql("SELECT idempotency.make_response_partitions(35)");
}

TEST_F(PostgresStoreTest, SweeperLooksAtEachClaimOnceAndKeepsWatchOverLongOnes) {
  store::ClaimRequest long_running = request("long");
  long_running.lease = 3h;
  ASSERT_TRUE(std::holds_alternative<store::Claimed>(claim(long_running)));
  const auto sweep = [&] {
    Answer<store::MaintenanceResult> answer;
    store().sweep(10, std::nullopt, soon(), answer.callback());
    EXPECT_TRUE(answer.get().ok) << answer.get().reason;
    return answer.get().to_unknown;
  };
  rig_.passTime(1h);
  EXPECT_EQ(sweep(), 0U);
  EXPECT_EQ(rig_.sql("SELECT count(*) FROM idempotency.sweep_watch")[0][0], "1");
  // The walk has passed it, yet it is found when its lease runs out.
  EXPECT_EQ(rig_.sql("SELECT count(*) FROM idempotency.record r, idempotency.sweep_position p"
                     " WHERE r.claimed_at > p.swept_to")[0][0],
            "0");
  rig_.passTime(3h);
  EXPECT_EQ(sweep(), 1U);
  EXPECT_EQ(rig_.sql("SELECT count(*) FROM idempotency.sweep_watch")[0][0], "0");
}

TEST_F(PostgresStoreTest, SweeperWalksALongBacklogInSteps) {
  rig_.sql(
      "INSERT INTO idempotency.record (tenant, operation, key, attempt, state, fingerprint, "
      "lease_until,"
      " expires_at, reap_at, claimed_at, created_at) SELECT 'tenant', 'operation', i::text::bytea, "
      "i,"
      " CASE i WHEN 60000 THEN 1 ELSE 2 END, 'f', now() - interval '1 hour',"
      " now() + interval '1 day', now() + interval '1 day',"
      " now() - interval '2 hours' + i * interval '1 ms', now() FROM generate_series(1, 60000) i");
  uint64_t found = 0;
  int steps = 0;
  for (bool more = true; more && steps < 10; ++steps) {
    Answer<store::MaintenanceResult> answer;
    store().sweep(10, std::nullopt, soon(), answer.callback());
    ASSERT_TRUE(answer.get().ok) << answer.get().reason;
    found += answer.get().to_unknown;
    more = answer.get().more;
  }
  EXPECT_EQ(found, 1U);
  EXPECT_GE(steps, 2);
  EXPECT_LE(steps, 4);
}

TEST_F(PostgresStoreTest, ReaperPaysForWhatItTakesNotForWhatWaits) {
  constexpr int Longer = 4;  // Lives that were made longer at completion; they come first.
  rig_.sql(
      "INSERT INTO idempotency.record (tenant, operation, key, attempt, state, fingerprint, "
      "lease_until, expires_at, reap_at, claimed_at, created_at) "
      "SELECT 'tenant', 'operation', i::text::bytea, i, 2, 'f', now(), "
      "CASE WHEN i <= 4 THEN now() + interval '1 day' ELSE now() END, "
      "now() - interval '1 day' + i * interval '1 s', now(), now() "
      "FROM generate_series(1, 20000) i");
  for (const char* prepare : {"SELECT 1", "VACUUM ANALYZE idempotency.record"}) {
    rig_.sql(prepare);
    int64_t pages = 0;
    for (const auto& line :
         rig_.sql("EXPLAIN (ANALYZE, BUFFERS) SELECT * FROM idempotency.reap(10, false)")) {
      if (const size_t at = line[0].find("shared hit="); at != std::string::npos) {
        pages = std::max<int64_t>(pages, std::stoll(line[0].substr(at + 11)));
      }
    }
    EXPECT_GT(pages, 10);
    EXPECT_LT(pages, 2000) << prepare;
  }
  EXPECT_EQ(rig_.sql("SELECT count(*) FROM idempotency.record")[0][0],
            std::to_string(20000 - (20 - Longer)));
  EXPECT_EQ(rig_.sql("SELECT count(*) FROM idempotency.record WHERE reap_at > now()")[0][0],
            std::to_string(Longer));
}

}  // namespace
}  // namespace idempotency::test
