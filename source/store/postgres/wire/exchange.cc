#include "source/store/postgres/wire/exchange.h"

#include <algorithm>
#include <utility>

namespace idempotency::postgres {

Exchange::Progress Exchange::read(PGconn* connection) {
  const bool received = PQconsumeInput(connection) == 1;
  // What came before the end of the connection still counts: perhaps the Sync is among it.
  const Progress progress = takeResults(connection);
  return progress == Progress::Working && !received ? Progress::Lost : progress;
}

Exchange::Progress Exchange::takeResults(PGconn* connection) {
  bool after_null = false;
  while (PQisBusy(connection) == 0) {
    PqResult result(PQgetResult(connection));
    if (result == nullptr) {
      // The end of one statement's results. Two in a row: nothing is left, yet no Sync came.
      if (after_null) {
        return PQstatus(connection) == CONNECTION_BAD ? Progress::Lost : Progress::Working;
      }
      after_null = true;
      continue;
    }
    after_null = false;
    if (PQresultStatus(result.get()) == PGRES_PIPELINE_SYNC) {
      return Progress::Synced;
    }
    results_.push_back(std::move(result));
    if (PQstatus(connection) == CONNECTION_BAD) {
      return Progress::Lost;
    }
  }
  return Progress::Working;
}

const PGresult* Exchange::error() const {
  const auto failed = std::find_if(results_.begin(), results_.end(), [](const PqResult& result) {
    const ExecStatusType status = PQresultStatus(result.get());
    return status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK;
  });
  return failed == results_.end() ? nullptr : failed->get();
}

}  // namespace idempotency::postgres
