#include "bench/payments.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <utility>

#include <postgresql/libpq-fe.h>

#include "bench/watched.h"

namespace idempotency::bench {
namespace {

constexpr size_t Connections = 16;

constexpr char Insert[] = "insert_payment";
constexpr char Begin[] = "begin_work";
constexpr char Complete[] = "complete";

bool prepare(PGconn* connection) {
  constexpr std::array<std::pair<const char*, const char*>, 3> Statements = {{
      {Insert, "INSERT INTO payment (attempt, amount) VALUES ($1::bigint, 100)"},
      {Begin, "SELECT idempotency.begin_work($1::bigint)"},
      {Complete,
       "SELECT idempotency.complete($1::bigint, 201,"
       " '{\"content-type\": \"application/json\"}', $2::bytea)"},
  }};
  return std::all_of(Statements.begin(), Statements.end(), [&](const auto& statement) {
    PGresult* const result = PQprepare(connection, statement.first, statement.second, 0, nullptr);
    const bool good = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    return good;
  });
}

}  // namespace

class Payments::Connection : public Watched {
public:
  Connection(int poll, PGconn* connection) : poll_(poll), connection_(connection) {
    bench::watch(poll_, EPOLL_CTL_ADD, PQsocket(connection_), EPOLLIN, this);
  }
  ~Connection() override { PQfinish(connection_); }

  size_t waiting() const { return waiting_.size(); }

  void send(const char* statement, std::string_view attempt, const std::string_view* body) {
    const std::string text(attempt);
    const std::array<const char*, 2> values = {text.c_str(),
                                               body == nullptr ? nullptr : body->data()};
    const std::array<int, 2> lengths = {0, body == nullptr ? 0 : static_cast<int>(body->size())};
    const std::array<int, 2> formats = {0, 1};
    PQsendQueryPrepared(connection_, statement, body == nullptr ? 1 : 2, values.data(),
                        lengths.data(), formats.data(), 0);
  }

  void commit(Done done) {
    PQpipelineSync(connection_);
    waiting_.push_back(std::move(done));
    flush();
  }

  void onReady(uint32_t) override {
    if (PQconsumeInput(connection_) != 1) {
      std::fprintf(stderr, "http_upstream: %s", PQerrorMessage(connection_));
      std::exit(1);
    }
    while (!waiting_.empty() && PQisBusy(connection_) == 0) {
      onResult(PQgetResult(connection_));
    }
    flush();
  }

private:
  void onResult(PGresult* result) {
    if (result == nullptr) {
      return;  // The end of a statement's results.
    }
    const ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_FATAL_ERROR && committed_) {
      std::fprintf(stderr, "http_upstream: %s", PQresultErrorMessage(result));
    }
    const bool is_error = status == PGRES_FATAL_ERROR || status == PGRES_PIPELINE_ABORTED;
    committed_ = committed_ && !is_error;
    PQclear(result);
    if (status == PGRES_PIPELINE_SYNC) {
      const Done done = std::move(waiting_.front());
      waiting_.pop_front();
      done(std::exchange(committed_, true));
    }
  }

  void flush() {
    const bool blocked = PQflush(connection_) == 1;
    if (blocked != blocked_) {
      blocked_ = blocked;
      bench::watch(poll_, EPOLL_CTL_MOD, PQsocket(connection_), EPOLLIN | (blocked ? EPOLLOUT : 0U),
                   this);
    }
  }

  const int poll_;
  PGconn* const connection_;
  std::deque<Done> waiting_;  // One for each transaction that was sent.
  bool committed_ = true;     // The transaction whose results come, so far.
  bool blocked_ = false;      // Waits for room in the socket.
};

Payments::Payments(int poll, const char* conninfo) {
  for (size_t i = 0; i < Connections; ++i) {
    PGconn* const connection = PQconnectdb(conninfo);
    if (PQstatus(connection) != CONNECTION_OK || !prepare(connection) ||
        PQsetnonblocking(connection, 1) != 0 || PQenterPipelineMode(connection) != 1) {
      std::fprintf(stderr, "http_upstream: %s", PQerrorMessage(connection));
      PQfinish(connection);
      connections_.clear();
      return;
    }
    connections_.push_back(std::make_unique<Connection>(poll, connection));
  }
}

Payments::~Payments() = default;

Payments::Connection& Payments::next() {
  return **std::min_element(
      connections_.begin(), connections_.end(),
      [](const auto& one, const auto& other) { return one->waiting() < other->waiting(); });
}

void Payments::insert(std::string_view attempt, Done done) {
  Connection& connection = next();
  connection.send(Insert, attempt, nullptr);
  connection.commit(std::move(done));
}

void Payments::insertAndComplete(std::string_view attempt, std::string_view body, Done done) {
  Connection& connection = next();
  connection.send(Begin, attempt, nullptr);
  connection.send(Insert, attempt, nullptr);
  connection.send(Complete, attempt, &body);
  connection.commit(std::move(done));
}

}  // namespace idempotency::bench
