// PostgresStore through PgBouncer in session mode: it keeps the contract of every store, and finds
// its way back when the pooler or the server behind it goes away.
#include "test/support/pgbouncer.h"

#include <csignal>
#include <fmt/format.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "test/store/postgres/postgres_rig.h"
#include "test/store/store_contract.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;

StoreKind pgBouncerKind() {
  return {"PgBouncer", [] {
            return std::make_unique<PostgresRig>(PgBouncer::shared().folder(), PgBouncer::Port);
          }};
}

INSTANTIATE_TEST_SUITE_P(PgBouncer, StoreContractTest, ::testing::Values(pgBouncerKind()),
                         storeKindName);
INSTANTIATE_TEST_SUITE_P(PgBouncer, MaintenanceContractTest, ::testing::Values(pgBouncerKind()),
                         storeKindName);

store::Deadline in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

class PgBouncerTest : public ::testing::Test {
protected:
  // Its own pooler: these tests stop it.
  explicit PgBouncerTest(std::map<std::string, std::string> settings = {})
      : pooler_(PostgresServer::shared(), std::move(settings)),
        rig_(pooler_.folder(), PgBouncer::Port) {}

  PgBouncer pooler_;
  PostgresRig rig_;

  postgres::PostgresStore& store() { return rig_.postgres(); }
  static store::ClaimRequest request(const std::string& key) {
    store::ClaimRequest request;
    request.identity = {"tenant", "operation", key};
    request.fingerprint = std::string(33, 'f');
    request.attempt = store::newAttempt();
    return request;
  }
  store::ClaimResult claim(const std::string& key, store::Deadline deadline = soon()) {
    Answer<store::ClaimResult> answer;
    store().claim(request(key), deadline, answer.callback());
    return answer.get();
  }
  // Claims and completes; whether both went well.
  bool live(const std::string& key) {
    const store::ClaimRequest wanted = request(key);
    Answer<store::ClaimResult> claimed;
    store().claim(wanted, in(2s), claimed.callback());
    if (!std::holds_alternative<store::Claimed>(claimed.get())) {
      return false;
    }
    protocol::Completed completion;
    completion.status = 200;
    completion.response_schema = 1;
    completion.response = "response of " + key;
    Answer<store::WriteResult> written;
    store().settle({wanted.identity, wanted.attempt}, completion, in(2s), written.callback());
    return written.get().outcome == store::WriteOutcome::Done;
  }
  void expectReplay(const std::string& key) {
    Answer<store::LookUpResult> found;
    store().lookUp({"tenant", "operation", key}, soon(), found.callback());
    const store::LookUpResult result = found.get();
    ASSERT_TRUE(std::holds_alternative<store::Record>(result)) << key;
    EXPECT_EQ(std::get<store::Record>(result).response, "response of " + key);
  }
  // How many of the server's sessions are the pooler's, for this database.
  size_t serverSessions() {
    return std::stoul(
        rig_.sql("SELECT count(*) FROM pg_stat_activity WHERE datname ="
                 " current_database() AND application_name = 'envoy-idempotency'")[0][0]);
  }
};

TEST_F(PgBouncerTest, AllGoesThroughThePooler) {
  EXPECT_TRUE(live("life"));
  expectReplay("life");
  EXPECT_GT(serverSessions(), 0U);
  pooler_.stop(SIGKILL);
  EXPECT_TRUE(eventually([&] { return serverSessions() == 0; }));
}

TEST_F(PgBouncerTest, ThePoolerIsRestarted) {
  ASSERT_TRUE(live("before"));
  for (const int signal : {SIGTERM, SIGKILL}) {
    pooler_.stop(signal);
    const store::ClaimResult result = claim(fmt::format("without {}", signal), in(300ms));
    EXPECT_TRUE(std::holds_alternative<store::Unavailable>(result) ||
                std::holds_alternative<store::InDoubt>(result))
        << result.index();
    pooler_.start();
    int tries = 0;
    EXPECT_TRUE(eventually([&] { return live(fmt::format("after {} {}", signal, ++tries)); }))
        << store().stats().last_error;
    expectReplay("before");
    expectReplay(fmt::format("after {} {}", signal, tries));
  }
  EXPECT_TRUE(eventually([&] { return store().stats().connections_up == 4; }));
}

TEST_F(PgBouncerTest, NothingAcknowledgedIsLostWhenThePoolerDiesUnderLoad) {
  constexpr size_t Claims = 400;
  rig_.waitUntilUp();
  std::vector<store::ClaimRequest> requests;
  std::vector<Answer<store::ClaimResult>> answers(Claims);
  for (size_t i = 0; i < Claims; ++i) {
    requests.push_back(request(fmt::format("load {}", i)));
  }
  rig_.block();  // So that batches are surely under way at the server.
  for (size_t i = 0; i < Claims / 2; ++i) {
    store().claim(requests[i], soon(), answers[i].callback());
  }
  ASSERT_TRUE(eventually([&] {
    return rig_.sql(
               "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND"
               " wait_event_type = 'Lock'")[0][0] != "0";
  }));
  pooler_.stop(SIGKILL);
  rig_.unblock();
  pooler_.start();
  for (size_t i = Claims / 2; i < Claims; ++i) {
    store().claim(requests[i], soon(), answers[i].callback());
  }
  size_t claimed = 0;
  for (size_t i = 0; i < Claims; ++i) {
    const store::ClaimResult result = answers[i].get();
    const std::string attempts = fmt::format(
        "SELECT attempt FROM idempotency.record WHERE key = {}", literal(requests[i].identity.key));
    if (std::holds_alternative<store::Claimed>(result)) {
      ++claimed;
      EXPECT_EQ(rig_.sql(attempts), (TextRows{{std::to_string(requests[i].attempt)}}));
    } else {
      // A claim that came through after all belongs to nobody: the store takes it back.
      EXPECT_FALSE(std::holds_alternative<store::Exists>(result));
      EXPECT_TRUE(eventually([&] { return rig_.sql(attempts).empty(); })) << i;
    }
  }
  EXPECT_LT(claimed, Claims);
}

TEST_F(PgBouncerTest, SessionsAreCleanForTheNextClient) {
  ASSERT_TRUE(live("first"));
  // The second store gets sessions that the first one prepared statements and pinned settings in.
  rig_.stop();
  rig_.start();
  EXPECT_TRUE(live("second")) << store().stats().last_error;
  expectReplay("first");
}

class SmallPoolTest : public PgBouncerTest {
protected:
  SmallPoolTest() : PgBouncerTest({{"default_pool_size", "2"}}) {}
};

TEST_F(SmallPoolTest, StoreWorksWithThePartOfItsConnectionsThatThePoolLetsIn) {
  ASSERT_TRUE(eventually([&] { return store().stats().connections_up == 2; }));
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(live(fmt::format("life {}", i))) << store().stats().last_error;
  }
  EXPECT_LE(serverSessions(), 2U);
}

// Debian's 1.18 knows nothing of prepared statements in this mode. One session behind four
// connections: the first one works, the others meet its statements.
class TransactionModeTest : public PgBouncerTest {
protected:
  TransactionModeTest()
      : PgBouncerTest({{"pool_mode", "transaction"}, {"default_pool_size", "1"}}) {}
};

TEST_F(TransactionModeTest, IsNamedAsTheReasonAndClaimsNoKeyTwice) {
  EXPECT_TRUE(eventually([&] {
    return store().stats().last_error.find("set its pool mode to session") != std::string::npos;
  })) << store().stats().last_error;
  constexpr size_t Rivals = 8;
  for (int key = 0; key < 25; ++key) {
    std::vector<Answer<store::ClaimResult>> answers(Rivals);
    for (auto& answer : answers) {
      store().claim(request(fmt::format("key {}", key)), in(500ms), answer.callback());
    }
    size_t winners = 0;
    for (const auto& answer : answers) {
      winners += std::holds_alternative<store::Claimed>(answer.get()) ? 1 : 0;
    }
    EXPECT_LE(winners, 1U);
  }
}

class UncleanSessionsTest : public PgBouncerTest {
protected:
  UncleanSessionsTest() : PgBouncerTest({{"server_reset_query", ""}}) {}
};

TEST_F(UncleanSessionsTest, AreRefusedWithTheReason) {
  ASSERT_TRUE(live("first"));
  rig_.waitUntilUp();
  rig_.stop();
  rig_.start();
  claim("second", in(300ms));
  EXPECT_TRUE(eventually([&] {
    return store().stats().last_error.find("DISCARD ALL") != std::string::npos;
  })) << store().stats().last_error;
}

}  // namespace
}  // namespace idempotency::test
