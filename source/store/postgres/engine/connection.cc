#include "source/store/postgres/engine/connection.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace idempotency::postgres {
namespace {

constexpr uint32_t Readable = EPOLLIN | EPOLLRDHUP;
constexpr uint32_t Writable = EPOLLOUT;

// A plan that was made when the table had one row scans it; the server itself renews plans only
// when it has analysed the table, perhaps a minute and a million rows later.
constexpr const char* RenewPlans = "DISCARD PLANS";
constexpr std::chrono::seconds PlanLife{5};

// How long a look at the server's durability settings counts. A reload can change them at any time.
constexpr std::chrono::milliseconds CheckLife{500};

}  // namespace

Connection::Connection(uint64_t tag, ConnectionOwner& owner, Poller& poller,
                       const ConnectionSettings& settings, Backoff backoff)
    : tag_(tag),
      owner_(owner),
      poller_(poller),
      settings_(settings),
      backoff_(std::move(backoff)) {}

Connection::~Connection() {
  drop();
}

void Connection::onTimer(store::MonotonicTime now) {
  if (now < timer_) {
    return;
  }
  switch (state_) {
    case State::Down:
      state_ = State::Resolving;
      timer_ = now + settings_.connect_timeout;
      owner_.onWantsAddresses(*this);
      return;
    case State::Resolving:
      if (!hosts_.empty()) {
        // Uses the last known addresses.
        connect(now);
        return;
      }
      fail(now, "host lookup timed out");
      return;
    case State::Connecting:
      tryNextHost(now, "connect timed out");
      return;
    case State::SettingUp:
      tryNextHost(now, "the server accepted the connection but did not respond");
      return;
    case State::Busy:
      // No PQcancel: it blocks, and the outcome would still be unknown.
      fail(now, send_failure_.empty() ? "the server did not respond in time" : send_failure_);
      return;
    case State::Ready:
      timer_ = store::Deadline::max();
      return;
  }
}

// --- Connecting

void Connection::onResolved(const Resolution& resolution, store::MonotonicTime now) {
  if (state_ != State::Resolving) {
    return;  // Too late: it continued without them.
  }
  if (!resolution.password.ok()) {
    fail(now, std::string(resolution.password.status().message()));
    return;
  }
  password_ = *resolution.password;
  if (resolution.hosts.ok()) {
    if (hosts_ != *resolution.hosts) {
      hosts_ = *resolution.hosts;
      host_ = 0;
    }
  } else if (hosts_.empty()) {
    fail(now, std::string(resolution.hosts.status().message()));
    return;
  }
  connect(now);
}

void Connection::connect(store::MonotonicTime now) {
  hosts_tried_ = 0;
  failures_.clear();
  tryNextHost(now, "");
}

void Connection::tryNextHost(store::MonotonicTime now, const std::string& failure) {
  drop();
  if (!failure.empty()) {
    noteFailure(hosts_[host_], failure);
    host_ = (host_ + 1) % hosts_.size();
  }
  for (; hosts_tried_ < hosts_.size(); host_ = (host_ + 1) % hosts_.size()) {
    ++hosts_tried_;
    if (startHost(hosts_[host_])) {
      state_ = State::Connecting;
      timer_ = now + settings_.connect_timeout;
      return;
    }
    noteFailure(hosts_[host_], describeError(pq_.get()));
    drop();
  }
  fail(now, std::string(failures_));
}

void Connection::noteFailure(const Host& host, const std::string& failure) {
  failures_ += fmt::format("{}{}:{}: {}", failures_.empty() ? "" : "; ",
                           host.name.empty() ? host.address : host.name, host.port, failure);
}

bool Connection::startHost(const Host& host) {
  std::vector<const char*> keywords;
  std::vector<const char*> values;
  const auto add = [&](const char* keyword, const std::string& value) {
    if (!value.empty()) {
      keywords.push_back(keyword);
      values.push_back(value.c_str());
    }
  };
  for (const auto& [keyword, value] : settings_.conninfo.options) {
    add(keyword.c_str(), value);
  }
  add("host", host.name);
  add("hostaddr", host.address);
  add("port", host.port);
  add("password", password_);
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  pq_.reset(PQconnectStartParams(keywords.data(), values.data(), 0));
  if (pq_ == nullptr || PQstatus(pq_.get()) == CONNECTION_BAD) {
    return false;
  }
  PQsetNoticeReceiver(pq_.get(), &onNotice, this);
  watch(Writable);
  return true;
}

void Connection::pollConnect(store::MonotonicTime now) {
  const PostgresPollingStatusType status = PQconnectPoll(pq_.get());
  // libpq may have opened another socket, perhaps with the same number: watch it again.
  unwatch();
  switch (status) {
    case PGRES_POLLING_READING:
      watch(Readable);
      return;
    case PGRES_POLLING_WRITING:
      watch(Writable);
      return;
    case PGRES_POLLING_OK:
      setUp(now);
      return;
    case PGRES_POLLING_FAILED:
    case PGRES_POLLING_ACTIVE:
      break;
  }
  tryNextHost(now, describeError(pq_.get()));
}

void Connection::setUp(store::MonotonicTime now) {
  state_ = State::SettingUp;
  timer_ = now + settings_.connect_timeout;
  if (PQsetnonblocking(pq_.get(), 1) != 0 || PQenterPipelineMode(pq_.get()) != 1 ||
      !sendSessionSetup(pq_.get(), settings_.session, predecessor_) || !flush()) {
    tryNextHost(now, describeError(pq_.get()));
    return;
  }
  exchange_.emplace(sessionSetupResults());
}

void Connection::onSetUpInput(store::MonotonicTime now) {
  switch (exchange_->read(pq_.get())) {
    case Exchange::Progress::Lost:
      tryNextHost(now, describeError(pq_.get()));
      return;
    case Exchange::Progress::Working:
      if (!flush()) {
        tryNextHost(now, describeError(pq_.get()));
      }
      return;
    case Exchange::Progress::Synced:
      break;
  }
  const absl::Status status = checkSession(exchange_->results());
  exchange_.reset();
  if (!status.ok()) {
    tryNextHost(now, std::string(status.message()));
    return;
  }
  state_ = State::Ready;
  timer_ = store::Deadline::max();
  backend_ = PQbackendPID(pq_.get());
  predecessor_ = 0;
  plans_until_ = now + PlanLife;
  checked_until_ = now + CheckLife;
  backoff_.reset();
  watch(Readable);
  owner_.onUp(*this);
}

// --- Batches

void Connection::send(Batch batch, store::MonotonicTime now) {
  batch_ = std::move(batch);
  state_ = State::Busy;
  replication_in_doubt_ = false;
  // Not at the first deadline of the batch: that operation gets its result then, but others wait.
  store::Deadline last = now + settings_.timeout;
  for (const OperationPtr& operation : batch_.operations) {
    if (operation->deadline() < now + std::chrono::hours(1)) {
      last = std::max(last, operation->deadline());
    }
  }
  timer_ = last;
  renewed_plans_ = now >= plans_until_;
  if (renewed_plans_) {
    plans_until_ = now + PlanLife;
  }
  checks_ = now >= checked_until_;
  exchange_.emplace(statementCount(batch_) + preludeLength());
  if (!sendStatements() || !flush()) {
    send_failure_ = describeError(pq_.get());
    timer_ = now;
  }
}

bool Connection::sendStatements() {
  if (renewed_plans_ &&
      PQsendQueryParams(pq_.get(), RenewPlans, 0, nullptr, nullptr, nullptr, nullptr, 0) != 1) {
    return false;
  }
  if (checks_ && !sendDurabilityCheck(pq_.get(), settings_.session)) {
    return false;
  }
  const bool sent = forEachStatement(batch_, parameters_, [this](StatementId id) {
    return PQsendQueryPrepared(pq_.get(), statement(id).name, parameters_.count(),
                               parameters_.values(), parameters_.lengths(), parameters_.formats(),
                               1) == 1;
  });
  return sent && PQpipelineSync(pq_.get()) == 1;
}

void Connection::onBatchInput(store::MonotonicTime now) {
  switch (exchange_->read(pq_.get())) {
    case Exchange::Progress::Lost:
      fail(now, describeError(pq_.get()));
      return;
    case Exchange::Progress::Working:
      if (!flush()) {
        fail(now, describeError(pq_.get()));
      }
      return;
    case Exchange::Progress::Synced:
      break;
  }
  BatchEnd end;
  bool weak = false;
  if (const PGresult* const error = exchange_->error(); error != nullptr) {
    end.kind = BatchEnd::Kind::RolledBack;
    end.sqlstate = sqlState(error);
    end.reason = describeError(error);
  } else if (replication_in_doubt_) {
    end.reason = "the commit did not wait for the standby and may be lost in a failover";
  } else if (const absl::Status durable = judgeServer(now); !durable.ok()) {
    end.reason = std::string(durable.message());
    weak = true;
  } else {
    end.kind = BatchEnd::Kind::Committed;
    end.results = std::move(exchange_->results());
    end.results.erase(end.results.begin(),
                      end.results.begin() + static_cast<ptrdiff_t>(preludeLength()));
  }
  const bool useless =
      weak || (end.kind == BatchEnd::Kind::RolledBack && needsNewSession(end.sqlstate));
  const std::string reason = end.reason;
  state_ = State::Ready;
  timer_ = store::Deadline::max();
  watch(Readable);
  endBatch(std::move(end));
  if (useless && state_ == State::Ready) {
    fail(now, reason);
  }
}

// What was committed on a weak server may not last: whether it does cannot be known.
absl::Status Connection::judgeServer(store::MonotonicTime now) {
  if (!checks_) {
    return absl::OkStatus();
  }
  checked_until_ = now + CheckLife;
  return checkDurability(exchange_->results()[preludeLength() - 1].get());
}

void Connection::endBatch(BatchEnd end) {
  exchange_.reset();
  owner_.onBatchEnd(*this, std::exchange(batch_, {}), std::move(end));
}

// --- Both

void Connection::onEvents(store::MonotonicTime now) {
  switch (state_) {
    case State::Down:
    case State::Resolving:
      return;
    case State::Connecting:
      pollConnect(now);
      return;
    case State::SettingUp:
      onSetUpInput(now);
      return;
    case State::Busy:
      onBatchInput(now);
      return;
    case State::Ready:
      // Nothing was sent: this is a notice, a changed parameter, or the end.
      if (PQconsumeInput(pq_.get()) != 1 || PQstatus(pq_.get()) == CONNECTION_BAD) {
        fail(now, describeError(pq_.get()));
        return;
      }
      if (PQisBusy(pq_.get()) == 0) {
        const PqResult result(PQgetResult(pq_.get()));
        if (result != nullptr || PQstatus(pq_.get()) == CONNECTION_BAD) {
          fail(now, result != nullptr ? describeError(result.get()) : describeError(pq_.get()));
        }
      }
      return;
  }
}

void Connection::fail(store::MonotonicTime now, const std::string& reason) {
  const std::string kept(reason.data(), reason.size());  // It may belong to what is dropped now.
  const bool had_batch = state_ == State::Busy;
  drop();
  state_ = State::Down;
  timer_ = now + backoff_.next();
  if (had_batch) {
    predecessor_ = backend_;
    endBatch({.kind = BatchEnd::Kind::Lost, .sqlstate = {}, .reason = kept, .results = {}});
  }
  owner_.onDown(*this, kept);
}

void Connection::close(const std::string& reason) {
  const bool had_batch = state_ == State::Busy;
  drop();
  state_ = State::Down;
  timer_ = store::Deadline::max();
  if (had_batch) {
    endBatch({.kind = BatchEnd::Kind::Lost, .sqlstate = {}, .reason = reason, .results = {}});
  }
}

void Connection::drop() {
  unwatch();
  send_failure_.clear();
  exchange_.reset();
  pq_.reset();
}

void Connection::unwatch() {
  // If libpq has closed its socket, another thread may already use the same number.
  if (watched_ >= 0 && pq_ != nullptr && PQsocket(pq_.get()) == watched_) {
    poller_.forget(watched_);
  }
  watched_ = -1;
}

void Connection::watch(uint32_t events) {
  const int fd = PQsocket(pq_.get());
  if (fd == watched_ && events == watched_events_) {
    return;
  }
  if (fd >= 0 && poller_.watch(fd, events, tag_)) {
    watched_ = fd;
    watched_events_ = events;
  }
  // Else nothing ever happens on it, and its timer ends it.
}

bool Connection::flush() {
  const int left = PQflush(pq_.get());
  if (left >= 0) {
    watch(left > 0 ? Readable | Writable : Readable);
  }
  return left >= 0;
}

void Connection::onNotice(void* connection, const PGresult* notice) {
  // The only trace of a commit that was not replicated. Texts are translated, the name of the
  // function is not.
  const char* const function = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);
  if (function != nullptr && std::string_view(function) == "SyncRepWaitForLSN") {
    static_cast<Connection*>(connection)->replication_in_doubt_ = true;
  }
}

}  // namespace idempotency::postgres
