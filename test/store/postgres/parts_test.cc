// The small parts: formats, error codes, bounds, connection strings, the list of migrations.
#include <cstdlib>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "source/store/postgres/engine/backoff.h"
#include "source/store/postgres/engine/error_scope.h"
#include "source/store/postgres/operations/queue_bound.h"
#include "source/store/postgres/operations/rows.h"
#include "source/store/postgres/schema/migrations.h"
#include "source/store/postgres/wire/conninfo.h"
#include "source/store/postgres/wire/parameters.h"
#include "source/store/postgres/wire/resolver.h"
#include "source/store/postgres/wire/wire.h"
#include "sql/migrations.h"
#include "sql/privileges.h"
#include "test/store/postgres/scripted_operation.h"

namespace idempotency::postgres {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// --- Formats

TEST(WireTest, IntegersAreInNetworkOrder) {
  std::string bytes;
  appendInt16(bytes, 0x0102);
  appendInt32(bytes, -2);
  appendInt64(bytes, INT64_MIN);
  EXPECT_EQ(bytes, std::string("\x01\x02\xff\xff\xff\xfe\x80\0\0\0\0\0\0\0", 14));
  EXPECT_EQ(readInt16(bytes.substr(0, 2)), 0x0102);
  EXPECT_EQ(readInt32(bytes.substr(2, 4)), -2);
  EXPECT_EQ(readInt64(bytes.substr(6, 8)), INT64_MIN);
}

TEST(WireTest, WrongSizeReadsAsZero) {
  EXPECT_EQ(readInt64("1234"), 0);
  EXPECT_EQ(readInt16(""), 0);
}

TEST(WireTest, TimesCountFrom2000AndAreRoundedDown) {
  EXPECT_EQ(toStoreTime(0).time_since_epoch(), 946'684'800s);
  EXPECT_EQ(toStoreTime(1'999).time_since_epoch(), 946'684'800'001ms);
  EXPECT_EQ(toStoreTime(-1).time_since_epoch(), 946'684'799'999ms);
  EXPECT_GT(toStoreTime(INT64_MAX), toStoreTime(0)) << "infinity";
}

TEST(ParametersTest, EmptyBytesAreNotNull) {
  Parameters parameters;
  parameters.bytes(std::string_view());
  parameters.null();
  EXPECT_NE(parameters.values()[0], nullptr);
  EXPECT_EQ(parameters.lengths()[0], 0);
  EXPECT_EQ(parameters.values()[1], nullptr);
}

TEST(ParametersTest, ValuesStayWhereTheyAreWhileOthersAreAdded) {
  Parameters parameters;
  for (int64_t i = 0; i < 1000; ++i) {
    parameters.int64(i);
  }
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(readInt64({parameters.values()[i], 8}), i);
  }
  parameters.clear();
  EXPECT_EQ(parameters.count(), 0);
}

TEST(ArraysTest, HasHeaderAndElements) {
  Arrays arrays;
  arrays.int16(0, 5);
  arrays.int16(0, -1);
  arrays.bytes(1, "");
  arrays.bytes(1, std::string_view("a\0b", 3));
  Parameters parameters;
  arrays.moveAll(parameters);
  ASSERT_EQ(parameters.count(), 2);
  const std::string first(parameters.values()[0], static_cast<size_t>(parameters.lengths()[0]));
  EXPECT_EQ(first, std::string("\0\0\0\1"
                               "\0\0\0\0"
                               "\0\0\0\x15"
                               "\0\0\0\2"
                               "\0\0\0\1"
                               "\0\0\0\2\0\5"
                               "\0\0\0\2\xff\xff",
                               32));
  const std::string second(parameters.values()[1], static_cast<size_t>(parameters.lengths()[1]));
  EXPECT_EQ(second.substr(20), std::string("\0\0\0\0\0\0\0\3a\0b", 11));
}

TEST(ArraysTest, RangeIsOfTheValues) {
  Arrays arrays;
  for (const int64_t value : {5, -3, 9}) {
    arrays.int64(0, value);
  }
  EXPECT_EQ(arrays.range(0), (std::pair<int64_t, int64_t>(-3, 9)));
}

TEST(RowsTest, LeaseIsJudgedByTheRowsOwnClock) {
  const auto record = [](int64_t lease_until, int64_t now) {
    std::vector<std::string> row(RecordColumn::Now + 1);
    appendInt16(row[RecordColumn::State], 1);
    appendInt64(row[RecordColumn::LeaseUntil], lease_until);
    appendInt64(row[RecordColumn::ExpiresAt], 1'000'000);
    appendInt64(row[RecordColumn::Now], now);
    const PqResult result = makeResult({row}, RecordColumn::Now + 1);
    return readRecord(Rows(result.get()), 0);
  };
  EXPECT_TRUE(record(1000, 999).lease_alive);
  EXPECT_EQ(record(1000, 999).lease_left, 1ms) << "rounded up";
  EXPECT_FALSE(record(1000, 1000).lease_alive);
  EXPECT_EQ(record(1000, 5000).lease_left, 0ms);
  EXPECT_FALSE(record(0, 999'999).past_life);
  EXPECT_TRUE(record(0, 1'000'000).past_life);
}

// --- Error codes

TEST(ErrorScopeTest, ClassifiesWhatAnErrorAffects) {
  struct Case {
    const char* sqlstate;
    ErrorScope scope;
    bool new_session;
    Evidence evidence;
  };
  for (const Case& test : {
           Case{"22021", ErrorScope::Statement, false, Evidence::None},  // Bad bytes.
           Case{"23505", ErrorScope::Statement, false, Evidence::None},  // Unique violation.
           Case{"23514", ErrorScope::Statement, false, Evidence::None},  // No partition.
           Case{"54000", ErrorScope::Statement, false, Evidence::None},  // Index row too long.
           Case{"P0001", ErrorScope::Statement, false, Evidence::None},  // A trigger's.
           Case{"40001", ErrorScope::Transient, false, Evidence::None},
           Case{"40P01", ErrorScope::Transient, false, Evidence::None},
           Case{"55P03", ErrorScope::Statement, false, Evidence::Timeout},  // Lock.
           Case{"57014", ErrorScope::Statement, false, Evidence::Timeout},  // Time limit.
           Case{"53100", ErrorScope::Server, false, Evidence::Outage},      // Disk full.
           Case{"53300", ErrorScope::Server, false, Evidence::Outage},      // Too many connections.
           Case{"25006", ErrorScope::Server, true, Evidence::Outage},       // Read-only.
           Case{"26000", ErrorScope::Server, true, Evidence::Outage},  // Prepared statement gone.
           Case{"57P01", ErrorScope::Server, true, Evidence::Outage},  // Shut-down.
           Case{"08006", ErrorScope::Server, true, Evidence::Outage},
           Case{"42P01", ErrorScope::Server, false, Evidence::Outage},  // Table gone.
           Case{"42501", ErrorScope::Server, false, Evidence::Outage},  // No permission.
           Case{"58030", ErrorScope::Server, false, Evidence::Outage},  // I/O.
           Case{"XX001", ErrorScope::Server, false, Evidence::Outage},  // Corrupted.
           Case{"", ErrorScope::Server, true, Evidence::Outage},        // libpq's own.
       }) {
    EXPECT_EQ(scopeOf(test.sqlstate), test.scope) << test.sqlstate;
    EXPECT_EQ(needsNewSession(test.sqlstate), test.new_session) << test.sqlstate;
    EXPECT_EQ(evidenceOf(test.sqlstate), test.evidence) << test.sqlstate;
  }
}

// --- Bounds and pauses

TEST(QueueBoundTest, RefusesWhatIsTooMuchAndTakesItWhenThereIsRoom) {
  const auto bound = std::make_shared<QueueBound>(100, 1000);
  QueueBound::Ticket first = bound->enter(900, QueueBound::Use::Follow);
  EXPECT_TRUE(first);
  EXPECT_FALSE(bound->enter(101, QueueBound::Use::Follow));
  EXPECT_EQ(bound->usedBytes(), 900U) << "a refused one leaves no trace";
  EXPECT_EQ(bound->usedOperations(), 1U);
  EXPECT_TRUE(bound->enter(100, QueueBound::Use::Follow));
  first = QueueBound::Ticket();
  EXPECT_EQ(bound->usedBytes(), 0U);
  EXPECT_EQ(bound->usedOperations(), 0U);
}

TEST(QueueBoundTest, NewRequestsLeaveRoomForThoseThatRan) {
  const auto bound = std::make_shared<QueueBound>(4, 1000);
  std::vector<QueueBound::Ticket> tickets;
  for (int i = 0; i < 3; ++i) {
    tickets.push_back(bound->enter(1, QueueBound::Use::Begin));
    EXPECT_TRUE(tickets.back());
  }
  EXPECT_FALSE(bound->enter(1, QueueBound::Use::Begin));
  EXPECT_TRUE(bound->enter(1, QueueBound::Use::Follow));
}

TEST(QueueBoundTest, MovedTicketGivesItsPlaceBackOnce) {
  const auto bound = std::make_shared<QueueBound>(4, 1000);
  {
    QueueBound::Ticket ticket = bound->enter(10, QueueBound::Use::Follow);
    const QueueBound::Ticket moved = std::move(ticket);
    EXPECT_EQ(bound->usedOperations(), 1U);
  }
  EXPECT_EQ(bound->usedOperations(), 0U);
  EXPECT_EQ(bound->usedBytes(), 0U);
}

TEST(BackoffTest, PausesGrowToABoundAndRestart) {
  double jitter = 0.999999;
  Backoff backoff(50ms, 300ms, [&] { return jitter; });
  EXPECT_EQ(backoff.next(), 50ms);
  EXPECT_EQ(backoff.next(), 100ms);
  EXPECT_EQ(backoff.next(), 200ms);
  EXPECT_EQ(backoff.next(), 300ms);
  EXPECT_EQ(backoff.next(), 300ms);
  backoff.reset();
  jitter = 0;
  EXPECT_EQ(backoff.next(), 25ms) << "half at least";
}

// --- Connection strings

Conninfo mustParse(const std::string& text) {
  auto conninfo = parseConninfo(text, 1s);
  EXPECT_TRUE(conninfo.ok()) << conninfo.status();
  return conninfo.ok() ? *conninfo : Conninfo();
}

TEST(ConninfoTest, HostsPortsAndAddressesArePaired) {
  EXPECT_THAT(mustParse("host=a,b port=1,2").hosts,
              ElementsAre(Host{"a", "1", ""}, Host{"b", "2", ""}));
  EXPECT_THAT(mustParse("host=a,b port=7").hosts,
              ElementsAre(Host{"a", "7", ""}, Host{"b", "7", ""}));
  EXPECT_THAT(mustParse("host=a hostaddr=10.0.0.1").hosts, ElementsAre(Host{"a", "", "10.0.0.1"}));
  EXPECT_THAT(mustParse("hostaddr=10.0.0.1,10.0.0.2 port=5").hosts,
              ElementsAre(Host{"", "5", "10.0.0.1"}, Host{"", "5", "10.0.0.2"}));
  EXPECT_THAT(mustParse("postgresql://u@a:1,b:2/db").hosts,
              ElementsAre(Host{"a", "1", ""}, Host{"b", "2", ""}));
}

TEST(ConninfoTest, BadStringsAreRefusedWithoutQuotingThem) {
  for (const char* const text : {"host", "host=a,b,c port=1,2", "host=a,b hostaddr=1.2.3.4",
                                 "nonsense=secret", "service=secret", "host='secret"}) {
    const auto conninfo = parseConninfo(text, 1s);
    ASSERT_FALSE(conninfo.ok()) << text;
    EXPECT_THAT(std::string(conninfo.status().message()), Not(HasSubstr("secret")));
  }
}

TEST(ConninfoTest, DefaultsGiveWayToWhatTheStringSays) {
  Conninfo conninfo = mustParse("host=a");
  EXPECT_EQ(conninfo.options["target_session_attrs"], "read-write");
  EXPECT_EQ(conninfo.options["tcp_user_timeout"], "2000");
  EXPECT_FALSE(conninfo.connect_timeout.has_value());
  conninfo = mustParse("host=a target_session_attrs=any tcp_user_timeout=7 connect_timeout=9");
  EXPECT_EQ(conninfo.options["target_session_attrs"], "any");
  EXPECT_EQ(conninfo.options["tcp_user_timeout"], "7");
  EXPECT_EQ(conninfo.connect_timeout, 9s);
  EXPECT_FALSE(conninfo.options.contains("connect_timeout")) << "libpq does not keep it";
}

TEST(ConninfoTest, RemoteHostWithoutTlsMayTravelInClear) {
  for (const char* const clear :
       {"host=db", "host=db sslmode=prefer", "host=db sslmode=allow", "host=db sslmode=disable",
        "host=10.0.0.1", "hostaddr=10.0.0.1", "host=localhost hostaddr=10.0.0.1",
        "host=/run/postgresql,db", "postgresql://db/app", "host=fd00::1"}) {
    EXPECT_TRUE(mayTravelInClear(clear)) << clear;
  }
  for (const char* const safe :
       {"host=db sslmode=verify-full", "host=db sslmode=verify-ca", "host=db sslmode=require",
        "postgresql://db/app?sslmode=verify-full", "host=/run/postgresql", "host=@postgres",
        "host=localhost", "host=127.0.0.1", "host=127.1.2.3", "host=::1", "hostaddr=127.0.0.1",
        "host=db hostaddr=127.0.0.1", "dbname=app", "not a conninfo"}) {
    EXPECT_FALSE(mayTravelInClear(safe)) << safe;
  }
}

TEST(ConninfoTest, OnlyNamesAreLookedUp) {
  EXPECT_TRUE(needsLookUp({"db.example", "", ""}));
  EXPECT_FALSE(needsLookUp({"db.example", "", "10.0.0.1"}));
  EXPECT_FALSE(needsLookUp({"10.0.0.1", "", ""}));
  EXPECT_FALSE(needsLookUp({"::1", "", ""}));
  EXPECT_FALSE(needsLookUp({"/run/postgresql", "", ""}));
  EXPECT_FALSE(needsLookUp({"@abstract", "", ""}));
  EXPECT_FALSE(needsLookUp({"", "", ""}));
}

TEST(ResolverTest, NameBecomesAddressesAndKeepsItsNameForCertificates) {
  const Resolution resolution = resolveNow({{"localhost", "7", ""}, {"/run", "8", ""}}, "");
  ASSERT_TRUE(resolution.hosts.ok()) << resolution.hosts.status();
  ASSERT_GE(resolution.hosts->size(), 2U);
  EXPECT_EQ(resolution.hosts->front().name, "localhost");
  EXPECT_EQ(resolution.hosts->front().port, "7");
  EXPECT_FALSE(needsLookUp(resolution.hosts->front()));
  EXPECT_EQ(resolution.hosts->back(), (Host{"/run", "8", ""}));
  EXPECT_EQ(*resolution.password, "");
}

TEST(ResolverTest, NameWithoutAddressIsAnErrorUnlessAnotherHasOne) {
  EXPECT_FALSE(resolveNow({{"no-such-host.invalid", "", ""}}, "").hosts.ok());
  const auto hosts = resolveNow({{"no-such-host.invalid", "", ""}, {"10.0.0.1", "", ""}}, "").hosts;
  ASSERT_TRUE(hosts.ok());
  EXPECT_THAT(*hosts, ElementsAre(Host{"10.0.0.1", "", ""}));
}

TEST(ResolverTest, PasswordIsReadEachTimeAndWithoutItsLineEnd) {
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/password";
  std::ofstream(path) << "first\r\n";
  EXPECT_EQ(*resolveNow({}, path).password, "first");
  std::ofstream(path) << " with spaces ";
  EXPECT_EQ(*resolveNow({}, path).password, " with spaces ");
  std::ofstream(path) << "\n";
  EXPECT_FALSE(resolveNow({}, path).password.ok()) << "empty";
  EXPECT_FALSE(resolveNow({}, path + "-missing").password.ok());
}

// --- Migrations

TEST(MigrationsTest, ThoseOfThisProgramCountUpToTheSchemaThatItNeeds) {
  const auto migrations = readMigrations(postgresMigrations());
  ASSERT_TRUE(migrations.ok()) << migrations.status();
  EXPECT_EQ(migrations->size(), static_cast<size_t>(SchemaVersion));
  ASSERT_EQ(postgresPrivileges().size(), 1U);
  EXPECT_THAT(std::string(postgresPrivileges()[0].text), HasSubstr("idempotency_filter"));
}

TEST(MigrationsTest, GapsAndMissingHeadersAreErrors) {
  const EmbeddedText good[] = {{"0001_a.sql", "-- compatible-with: 1\n"},
                               {"0002_b.sql", "-- compatible-with: 1\n"}};
  const auto migrations = readMigrations(good);
  ASSERT_TRUE(migrations.ok());
  EXPECT_EQ((*migrations)[1].version, 2);
  EXPECT_EQ((*migrations)[1].compatible_with, 1);
  for (const std::vector<EmbeddedText>& bad : {
           std::vector<EmbeddedText>{{"0002_b.sql", "-- compatible-with: 1\n"}},
           std::vector<EmbeddedText>{{"a.sql", "-- compatible-with: 1\n"}},
           std::vector<EmbeddedText>{{"0001_a.sql", "CREATE TABLE x ()"}},
           std::vector<EmbeddedText>{{"0001_a.sql", "-- compatible-with: 2\n"}},
           std::vector<EmbeddedText>{{"0001_a.sql", "-- compatible-with: x\n"}},
       }) {
    EXPECT_FALSE(readMigrations(bad).ok());
  }
}

}  // namespace
}  // namespace idempotency::postgres
