#include "source/store/postgres/blocking_session.h"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <poll.h>
#include <span>
#include <string_view>

#include "source/store/postgres/engine/session.h"
#include "source/store/postgres/wire/connect.h"

namespace idempotency::postgres {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr char RoleOfOperators[] = "idempotency_operator";

// How long an operator waits for a row that a request or an upstream's transaction has locked.
constexpr milliseconds LongestLock{1000};

// The server's own limit comes first; this one is for a server that does not respond.
constexpr milliseconds Grace{1000};

// Takes back what the engine's sessions set for the sake of single rows.
constexpr const char* FreePlanner =
    "SELECT set_config('lock_timeout', $1::text, false),"
    " set_config('plan_cache_mode', 'force_custom_plan', false),"
    " set_config('enable_seqscan', 'on', false),"
    " set_config('enable_indexscan', 'on', false),"
    " set_config('enable_indexonlyscan', 'on', false),"
    " set_config('enable_hashjoin', 'on', false),"
    " set_config('enable_mergejoin', 'on', false)";

absl::Status explained(const PGresult* error) {
  const std::string_view code = sqlState(error);
  const std::string text = describeError(error);
  if (code == "55P03") {
    return absl::AbortedError(fmt::format(
        "another transaction has locked the record; nothing was changed, try again ({})", text));
  }
  if (code == "57014") {
    return absl::DeadlineExceededError(fmt::format("took too long ({})", text));
  }
  if (code == "42501") {
    return absl::PermissionDeniedError(
        fmt::format("the role may not do this: GRANT {} to it ({})", RoleOfOperators, text));
  }
  return absl::InternalError(text);
}

absl::Status firstError(const std::vector<PqResult>& results) {
  const auto failed = std::ranges::find_if(results, [](const PqResult& result) {
    const ExecStatusType status = PQresultStatus(result.get());
    return status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK;
  });
  return failed == results.end() ? absl::OkStatus() : explained(failed->get());
}

}  // namespace

absl::StatusOr<std::vector<PqResult>> BlockingSession::run(const Script& script, Repeat repeat) {
  in_doubt_ = false;
  if (repeat == Repeat::Never) {
    if (pq_ == nullptr) {
      return absl::UnavailableError("the connection was lost");
    }
    return runOnce(script, false);
  }
  const bool reused = pq_ != nullptr && !hasEnded();
  if (!reused) {
    if (absl::Status opened = open(); !opened.ok()) {
      return opened;
    }
  }
  auto results = runOnce(script, false);
  if (absl::IsUnavailable(results.status()) && reused && repeat == Repeat::Always) {
    if (absl::Status opened = open(); !opened.ok()) {
      return opened;
    }
    return runOnce(script, false);
  }
  return results;
}

absl::StatusOr<std::vector<PqResult>> BlockingSession::begin(const Script& script) {
  // What only locks may be sent twice: the lost session's transaction is rolled back.
  for (bool fresh = false;; fresh = true) {
    if (pq_ == nullptr || hasEnded()) {
      fresh = true;
      if (absl::Status opened = open(); !opened.ok()) {
        return opened;
      }
    }
    auto results = runOnce(script, true);
    if (!absl::IsUnavailable(results.status()) || fresh) {
      in_doubt_ = false;
      return results;
    }
  }
}

void BlockingSession::rollBack() {
  Script script;
  script.add("ROLLBACK");
  if (pq_ != nullptr && !runOnce(script, false).ok()) {
    pq_.reset();
  }
  in_doubt_ = false;
}

std::string BlockingSession::server() const {
  return pq_ == nullptr ? std::string()
                        : fmt::format("{}:{}", PQhost(pq_.get()), PQport(pq_.get()));
}

// --- Connecting

absl::Status BlockingSession::open() {
  pq_.reset();
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(options_.timeout);
  auto connected = connectNow(
      {.conninfo = options_.conninfo,
       .password = options_.password,
       .timeout = seconds,
       .defaults = {{"fallback_application_name", "envoy-idempotency operator"},
                    {"target_session_attrs", "read-write"},
                    {"tcp_user_timeout", std::to_string(2 * milliseconds(seconds).count())},
                    {"keepalives_idle", "10"},
                    {"keepalives_interval", "5"},
                    {"keepalives_count", "3"},
                    {"client_encoding", "UTF8"}}});
  if (!connected.ok()) {
    return connected.status();
  }
  pq_ = *std::move(connected);
  announced_end_ = false;
  absl::Status status = setUp();
  if (!status.ok()) {
    pq_.reset();
  }
  in_doubt_ = false;
  return status;
}

absl::Status BlockingSession::setUp() {
  PQsetNoticeReceiver(pq_.get(), &onNotice, this);
  const std::string lock_limit =
      std::to_string(std::min(LongestLock, options_.timeout / 2).count());
  const char* const values[] = {lock_limit.c_str()};
  if (PQsetnonblocking(pq_.get(), 1) != 0 || PQenterPipelineMode(pq_.get()) != 1 ||
      !sendSettings(pq_.get(), {.timeout = options_.timeout}, 0) ||
      PQsendQueryParams(pq_.get(), FreePlanner, 1, nullptr, values, nullptr, nullptr, 0) != 1 ||
      PQpipelineSync(pq_.get()) != 1) {
    return lost(describeError(pq_.get()));
  }
  Exchange exchange(SettingsResults + 1);
  if (absl::Status received = receive(exchange); !received.ok()) {
    return received;
  }
  if (absl::Status usable = checkSettings(exchange.results(), RoleOfOperators); !usable.ok()) {
    return usable;
  }
  return firstError(exchange.results());
}

bool BlockingSession::hasEnded() {
  // What comes while nothing is asked is a notice, a changed parameter, or the end. The server says
  // that it ends the session a moment before it closes the connection.
  pollfd descriptor{.fd = PQsocket(pq_.get()), .events = POLLIN, .revents = 0};
  while (poll(&descriptor, 1, 0) > 0) {
    if (PQconsumeInput(pq_.get()) != 1 || PQstatus(pq_.get()) == CONNECTION_BAD) {
      return true;
    }
  }
  (void)PQisBusy(pq_.get());  // Reads what has come: onNotice() gets it.
  return announced_end_;
}

// --- Statements

absl::StatusOr<std::vector<PqResult>> BlockingSession::runOnce(const Script& script,
                                                               bool check_durability) {
  replication_in_doubt_ = false;
  in_doubt_ = true;
  if (!send(script, check_durability)) {
    return lost(describeError(pq_.get()));
  }
  Exchange exchange(script.statements().size() + 1);
  if (absl::Status received = receive(exchange); !received.ok()) {
    return received;
  }
  if (absl::Status error = firstError(exchange.results()); !error.ok()) {
    in_doubt_ = false;  // Rolled back.
    return error;
  }
  if (replication_in_doubt_) {
    return absl::UnknownError(
        "the commit did not wait for the standby and may be lost in a failover");
  }
  in_doubt_ = false;
  std::vector<PqResult> results = std::move(exchange.results());
  if (check_durability) {
    if (absl::Status durable = checkDurability(results.front().get()); !durable.ok()) {
      return durable;
    }
    results.erase(results.begin());
  }
  if (results.size() != script.statements().size()) {
    return absl::InternalError("the server's response is incomplete");
  }
  return results;
}

bool BlockingSession::send(const Script& script, bool check_durability) {
  if (check_durability && !sendDurabilityCheck(pq_.get(), {.timeout = options_.timeout})) {
    return false;
  }
  return std::ranges::all_of(script.statements(),
                             [this](const Script::Statement& statement) {
                               const Parameters& parameters = statement.parameters;
                               return PQsendQueryParams(pq_.get(), statement.sql.c_str(),
                                                        parameters.count(), nullptr,
                                                        parameters.values(), parameters.lengths(),
                                                        parameters.formats(), 1) == 1;
                             }) &&
         PQpipelineSync(pq_.get()) == 1;
}

absl::Status BlockingSession::receive(Exchange& exchange) {
  const auto end = steady_clock::now() + options_.timeout + Grace;
  for (;;) {
    const int unsent = PQflush(pq_.get());
    // Also if sending failed: the server may have said why.
    switch (exchange.read(pq_.get())) {
      case Exchange::Progress::Synced:
        return absl::OkStatus();
      case Exchange::Progress::Lost: {
        const PGresult* const last = exchange.error();
        return lost(last != nullptr ? describeError(last) : describeError(pq_.get()));
      }
      case Exchange::Progress::Working:
        break;
    }
    const auto left = std::chrono::ceil<milliseconds>(end - steady_clock::now());
    if (left <= milliseconds(0)) {
      return lost("the server did not respond in time");
    }
    pollfd descriptor{.fd = PQsocket(pq_.get()),
                      .events = static_cast<short>(unsent > 0 ? POLLIN | POLLOUT : POLLIN),
                      .revents = 0};
    if (poll(&descriptor, 1, static_cast<int>(left.count())) < 0 && errno != EINTR) {
      return lost("poll failed");
    }
  }
}

absl::Status BlockingSession::lost(const std::string& reason) {
  absl::Status status = absl::UnavailableError(fmt::format("the connection was lost: {}", reason));
  pq_.reset();
  return status;
}

void BlockingSession::onNotice(void* session, const PGresult* notice) {
  // The only trace of a commit that was not replicated. Texts are translated, the name of the
  // function is not.
  const char* const function = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);
  if (function != nullptr && std::string_view(function) == "SyncRepWaitForLSN") {
    static_cast<BlockingSession*>(session)->replication_in_doubt_ = true;
  }
  // Also not translated.
  const char* const severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
  if (severity != nullptr &&
      (std::string_view(severity) == "FATAL" || std::string_view(severity) == "PANIC")) {
    static_cast<BlockingSession*>(session)->announced_end_ = true;
  }
}

}  // namespace idempotency::postgres
