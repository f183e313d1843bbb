#include "source/store/postgres/engine/batch.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "source/store/postgres/wire/wire.h"
#include "test/store/postgres/scripted_operation.h"

namespace idempotency::postgres {
namespace {

using ::testing::ElementsAre;
using Script = ScriptedOperation::Script;

Batch batchOf(std::vector<Script> scripts) {
  Batch batch;
  for (Script& script : scripts) {
    batch.operations.push_back(scripted(std::move(script)));
  }
  arrange(batch);
  return batch;
}

std::string int64Bytes(int64_t value) {
  std::string bytes;
  appendInt64(bytes, value);
  return bytes;
}

std::vector<std::pair<size_t, size_t>> partsOf(const Batch& batch) {
  std::vector<std::pair<size_t, size_t>> parts;
  for (const Batch::Part& part : batch.parts) {
    parts.emplace_back(part.first, part.count);
  }
  return parts;
}

TEST(BatchTest, InsertsComeBeforeWritesBeforeReadsEachByIdentity) {
  const Batch batch = batchOf({{.key = "r1", .lane = Lane::Read},
                               {.key = "w2"},
                               {.key = "i2", .lane = Lane::Insert},
                               {.key = "w1"},
                               {.key = "i1", .lane = Lane::Insert}});
  EXPECT_THAT(keysOf(batch.operations), ElementsAre("i1", "i2", "w1", "w2", "r1"));
}

TEST(BatchTest, BytesOfKeysAreComparedAsTheServerDoes) {
  const Batch batch = batchOf({{.key = "\xff"}, {.key = "a"}, {.key = "\x80"}, {.key = "A"}});
  EXPECT_THAT(keysOf(batch.operations), ElementsAre("A", "a", "\x80", "\xff"));
}

TEST(BatchTest, DuplicatesStayInTheOrderInWhichTheyCame) {
  Batch batch;
  for (const protocol::Attempt attempt : {3, 1, 2}) {
    batch.operations.push_back(
        scripted({.key = "k", .lane = Lane::Insert, .group = Group::Claims, .attempt = attempt}));
  }
  arrange(batch);
  EXPECT_EQ(batch.operations[0]->memberAttempt(), 3);
  EXPECT_EQ(batch.operations[1]->memberAttempt(), 1);
  EXPECT_EQ(batch.operations[2]->memberAttempt(), 2);
}

TEST(BatchTest, NeighboursOfAGroupShareAStatement) {
  const Batch batch = batchOf({{.key = "a", .lane = Lane::Insert, .group = Group::Claims},
                               {.key = "b", .lane = Lane::Insert, .group = Group::Claims},
                               {.key = "c", .lane = Lane::Write, .group = Group::Completes},
                               {.key = "d", .lane = Lane::Write, .group = Group::Completes}});
  EXPECT_THAT(partsOf(batch), ElementsAre(std::pair(0, 2), std::pair(2, 2)));
  EXPECT_EQ(statementCount(batch), 2U);
}

TEST(BatchTest, SharingNeverChangesTheOrderOfLocks) {
  const Batch batch = batchOf({{.key = "a", .group = Group::Completes},
                               {.key = "b"},
                               {.key = "c", .group = Group::Completes}});
  EXPECT_THAT(keysOf(batch.operations), ElementsAre("a", "b", "c"));
  EXPECT_THAT(partsOf(batch), ElementsAre(std::pair(0, 1), std::pair(1, 1), std::pair(2, 1)));
}

TEST(BatchTest, ReadsOfAGroupStandTogetherWhateverTheirKeys) {
  const Batch batch = batchOf({{.key = "a", .lane = Lane::Read, .group = Group::Records},
                               {.key = "b", .lane = Lane::Read, .group = Group::Responses},
                               {.key = "c", .lane = Lane::Read, .group = Group::Records}});
  EXPECT_THAT(keysOf(batch.operations), ElementsAre("a", "c", "b"));
  EXPECT_THAT(partsOf(batch), ElementsAre(std::pair(0, 2), std::pair(2, 1)));
}

TEST(BatchTest, OperationsWithoutAGroupHaveTheirOwnStatements) {
  const Batch batch = batchOf({{.key = "a"}, {.key = "b", .statements = 3}, {.key = "c"}});
  EXPECT_EQ(statementCount(batch), 5U);
  Parameters parameters;
  int sent = 0;
  EXPECT_TRUE(forEachStatement(batch, parameters, [&](StatementId id) {
    EXPECT_EQ(id, StatementId::Fail);
    ++sent;
    return true;
  }));
  EXPECT_EQ(sent, 5);
}

TEST(BatchTest, SendingStopsWhereItFails) {
  const Batch batch = batchOf({{.key = "a"}, {.key = "b"}});
  Parameters parameters;
  int sent = 0;
  EXPECT_FALSE(forEachStatement(batch, parameters, [&](StatementId) {
    ++sent;
    return false;
  }));
  EXPECT_EQ(sent, 1);
}

TEST(BatchTest, ResponsesAreAskedForWithTheBoundsOfTheirExpiry) {
  const Batch batch =
      batchOf({{.key = "a", .lane = Lane::Read, .group = Group::Responses, .attempt = 7},
               {.key = "b", .lane = Lane::Read, .group = Group::Responses, .attempt = 5}});
  Parameters parameters;
  EXPECT_TRUE(forEachStatement(batch, parameters, [&](StatementId id) {
    EXPECT_EQ(id, StatementId::ReadResponses);
    EXPECT_EQ(parameters.count(), 3);
    EXPECT_EQ(readInt64({parameters.values()[1], 8}), 500);
    EXPECT_EQ(readInt64({parameters.values()[2], 8}), 700);
    return true;
  }));
}

TEST(BatchTest, SharedAnswerIsToldByAttempt) {
  const Batch batch =
      batchOf({{.key = "a", .lane = Lane::Insert, .group = Group::Claims, .attempt = 10},
               {.key = "b", .lane = Lane::Insert, .group = Group::Claims, .attempt = 20},
               {.key = "c", .lane = Lane::Insert, .group = Group::Claims, .attempt = 30}});
  std::vector<PqResult> results;
  results.push_back(makeResult({{"third", int64Bytes(30)}, {"first", int64Bytes(10)}}, 2));
  std::map<size_t, std::string> told;
  forEachAnswer(batch, results, [&](size_t place, std::span<const Rows> rows) {
    ASSERT_EQ(rows.size(), 1U);
    told[place] = rows[0].empty() ? "none" : std::string(rows[0].bytes(0, 0));
  });
  EXPECT_THAT(told,
              ElementsAre(std::pair(0, "first"), std::pair(1, "none"), std::pair(2, "third")));
}

TEST(BatchTest, SharedKeysAreToldByTheirPlaceSinceIdentitiesMayRepeat) {
  const Batch batch = batchOf({{.key = "a", .lane = Lane::Read, .group = Group::Records},
                               {.key = "a", .lane = Lane::Read, .group = Group::Records},
                               {.key = "b", .lane = Lane::Read, .group = Group::Records}});
  std::vector<std::string> row(RecordColumn::Ordinal + 1);
  std::vector<std::vector<std::string>> rows;
  for (const int64_t ordinal : {2, 1}) {
    row[RecordColumn::Fingerprint] = std::to_string(ordinal);
    row[RecordColumn::Ordinal] = int64Bytes(ordinal);
    rows.push_back(row);
  }
  std::vector<PqResult> results;
  results.push_back(makeResult(rows, RecordColumn::Ordinal + 1));
  std::vector<std::string> told;
  forEachAnswer(batch, results, [&](size_t, std::span<const Rows> answer) {
    told.push_back(answer[0].empty() ? "none"
                                     : std::string(answer[0].bytes(0, RecordColumn::Fingerprint)));
  });
  EXPECT_THAT(told, ElementsAre("1", "2", "none"));
}

TEST(BatchTest, AnswersOfSharedAndOwnStatementsAreNotMixedUp) {
  const Batch batch =
      batchOf({{.key = "a", .lane = Lane::Insert, .group = Group::Claims, .attempt = 1},
               {.key = "b", .lane = Lane::Insert, .group = Group::Claims, .attempt = 2},
               {.key = "c", .statements = 2},
               {.key = "d"}});
  std::vector<PqResult> results;
  results.push_back(makeResult({{"", int64Bytes(2)}}, 2));
  results.push_back(makeResult({}, 1));
  results.push_back(makeResult({{"x"}, {"y"}}, 1));
  results.push_back(makeResult({{"z"}}, 1));
  std::vector<std::pair<size_t, int>> told;
  forEachAnswer(batch, results, [&](size_t, std::span<const Rows> answer) {
    told.emplace_back(answer.size(), answer.back().count());
  });
  EXPECT_THAT(told,
              ElementsAre(std::pair(1, 0), std::pair(1, 1), std::pair(2, 2), std::pair(1, 1)));
}

}  // namespace
}  // namespace idempotency::postgres
