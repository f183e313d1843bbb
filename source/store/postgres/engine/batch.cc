#include "source/store/postgres/engine/batch.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace idempotency::postgres {
namespace {

bool goesBefore(const OperationPtr& a, const OperationPtr& b) {
  if (a->lane() != b->lane()) {
    return a->lane() < b->lane();
  }
  // Reads lock nothing, so any order will do: those that can share a statement are adjacent.
  if (a->lane() == Lane::Read && a->group() != b->group()) {
    return a->group() < b->group();
  }
  if (a->identity() == nullptr || b->identity() == nullptr) {
    return a->identity() != nullptr && b->identity() == nullptr;
  }
  return *a->identity() < *b->identity();
}

StatementId statementOf(Group group) {
  switch (group) {
    case Group::Claims:
      return StatementId::ClaimMany;
    case Group::Completes:
      return StatementId::CompleteMany;
    case Group::Records:
      return StatementId::ReadRecordMany;
    case Group::Responses:
    case Group::None:
      break;
  }
  return StatementId::ReadResponses;
}

StatementId bindShared(const Batch& batch, const Batch::Part& part, Parameters& parameters) {
  Arrays arrays;
  for (size_t i = part.first; i < part.first + part.count; ++i) {
    batch.operations[i]->bindMember(arrays);
  }
  if (part.group == Group::Responses) {
    // The bounds as values of their own: by them the planner passes over the other partitions.
    const auto [first, last] = arrays.range(1);
    arrays.moveColumn(0, parameters);
    parameters.int64(first);
    parameters.int64(last);
  } else {
    arrays.moveAll(parameters);
  }
  return statementOf(part.group);
}

// Which row of the answer is whose.
absl::flat_hash_map<int64_t, int> rowsByMember(Group group, const Rows& rows) {
  const int column = group == Group::Records     ? RecordColumn::Ordinal
                     : group == Group::Completes ? 0
                                                 : 1;
  absl::flat_hash_map<int64_t, int> places;
  for (int row = 0; row < rows.count(); ++row) {
    places[rows.int64(row, column)] = row;
  }
  return places;
}

void tellShared(const Batch& batch, const Batch::Part& part, const PGresult* result,
                const std::function<void(size_t, std::span<const Rows>)>& tell) {
  const auto places = rowsByMember(part.group, Rows(result));
  for (size_t i = part.first; i < part.first + part.count; ++i) {
    const int64_t member = part.group == Group::Records ? static_cast<int64_t>(i - part.first) + 1
                                                        : batch.operations[i]->memberAttempt();
    const auto found = places.find(member);
    const Rows rows = found == places.end() ? Rows(result, 0, 0) : Rows(result, found->second, 1);
    tell(i, {&rows, 1});
  }
}

}  // namespace

void arrange(Batch& batch) {
  std::stable_sort(batch.operations.begin(), batch.operations.end(), goesBefore);
  batch.parts.clear();
  for (size_t i = 0; i < batch.operations.size(); ++i) {
    const Group group = batch.operations[i]->group();
    if (group != Group::None && !batch.parts.empty() && batch.parts.back().group == group) {
      ++batch.parts.back().count;
    } else {
      batch.parts.push_back({group, i, 1});
    }
  }
}

size_t statementCount(const Batch& batch) {
  size_t count = 0;
  for (const Batch::Part& part : batch.parts) {
    count += part.count == 1 ? batch.operations[part.first]->statementCount() : 1;
  }
  return count;
}

bool forEachStatement(const Batch& batch, Parameters& parameters,
                      const std::function<bool(StatementId)>& send) {
  for (const Batch::Part& part : batch.parts) {
    const Operation& first = *batch.operations[part.first];
    const size_t statements = part.count == 1 ? first.statementCount() : 1;
    for (size_t i = 0; i < statements; ++i) {
      parameters.clear();
      if (!send(part.count == 1 ? first.bind(i, parameters)
                                : bindShared(batch, part, parameters))) {
        return false;
      }
    }
  }
  return true;
}

void forEachAnswer(const Batch& batch, std::span<const PqResult> results,
                   const std::function<void(size_t, std::span<const Rows>)>& tell) {
  std::vector<Rows> own;
  for (const Batch::Part& part : batch.parts) {
    if (part.count > 1) {
      tellShared(batch, part, results.front().get(), tell);
      results = results.subspan(1);
      continue;
    }
    const size_t statements = batch.operations[part.first]->statementCount();
    own.clear();
    for (const PqResult& result : results.first(statements)) {
      own.emplace_back(result.get());
    }
    results = results.subspan(statements);
    tell(part.first, own);
  }
}

}  // namespace idempotency::postgres
