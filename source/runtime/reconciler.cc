#include "source/runtime/reconciler.h"

#include <algorithm>
#include <condition_variable>
#include <fmt/format.h>
#include <mutex>

#include "source/protocol/reconcile.h"

namespace idempotency::runtime {
namespace {

using std::chrono::steady_clock;

constexpr std::string_view Actor = "reconciler";

// What each entry covers: the operations that it names, or all that no entry names.
std::vector<store::OperationSet> operationsOf(
    const std::vector<protocol::ReconcileSettings>& entries) {
  store::OperationSet rest{.names = {}, .all_but = true};
  for (const protocol::ReconcileSettings& entry : entries) {
    rest.names.insert(rest.names.end(), entry.operations.begin(), entry.operations.end());
  }
  std::vector<store::OperationSet> sets;
  sets.reserve(entries.size());
  for (const protocol::ReconcileSettings& entry : entries) {
    sets.push_back(entry.operations.empty()
                       ? rest
                       : store::OperationSet{.names = entry.operations, .all_but = false});
  }
  return sets;
}

// Room for the response as a JSON string, which takes up to six bytes for each of its own, and for
// the rest of the object.
size_t maxAnswerBytes(const protocol::ReconcileSettings& settings) {
  constexpr size_t Rest = size_t{1} << 20;
  return 6 * settings.max_response_bytes + Rest;
}

message::OutcomeAnswer noAnswer(std::string why) {
  message::OutcomeAnswer answer;
  answer.failure = std::move(why);
  return answer;
}

}  // namespace

// What other threads tell the reconciler's. Any thread.
class Reconciler::Inbox {
public:
  using Answers = std::vector<std::pair<uint64_t, message::OutcomeAnswer>>;

  void put(uint64_t id, message::OutcomeAnswer answer) {
    const std::lock_guard lock(mutex_);
    if (open_) {
      answers_.emplace_back(id, std::move(answer));
      changed_.notify_one();
    }
  }
  void lead(bool leads) {
    const std::lock_guard lock(mutex_);
    leads_ = leads;
    changed_.notify_one();
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    changed_.notify_one();
  }

  bool works() {
    const std::lock_guard lock(mutex_);
    return leads_ && !stops_;
  }
  // False: it is to stop.
  bool waitToLead() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return leads_ || stops_; });
    open_ = !stops_;
    return open_;
  }
  Answers takeBy(store::Deadline time) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, time, [this] { return !answers_.empty() || !leads_ || stops_; });
    return std::exchange(answers_, {});
  }
  // Answers that come from now on are dropped.
  void close() {
    const std::lock_guard lock(mutex_);
    open_ = false;
    answers_.clear();
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  Answers answers_;
  bool leads_ = false;
  bool stops_ = false;
  bool open_ = false;
};

Reconciler::Reconciler(ReconcilerOptions options, OpenStore open, Asker& asker,
                       std::shared_ptr<ReconcileObserver> observer, std::function<double()> random)
    : options_(std::move(options)),
      operations_(operationsOf(options_.entries)),
      open_(std::move(open)),
      asker_(asker),
      observer_(std::move(observer)),
      random_(std::move(random)),
      inbox_(std::make_shared<Inbox>()),
      entries_(options_.entries.size()) {
  thread_ = std::thread([this] { run(); });
}

Reconciler::~Reconciler() {
  stop();
}

void Reconciler::lead(bool leads) {
  inbox_->lead(leads);
}

void Reconciler::stop() {
  inbox_->stop();
  if (thread_.joinable()) {
    thread_.join();
  }
}

// --- The thread ---------------------------------------------------------------------------------

void Reconciler::run() {
  while (inbox_->waitToLead()) {
    try {
      work();
    } catch (...) {  // No memory: what was asked is asked again when its hold is over.
      open_due_ = steady_clock::now() + options_.store_pause;
    }
    inbox_->close();
    asked_.clear();
    std::fill(entries_.begin(), entries_.end(), Entry());
    store_.reset();
    observer_->onUnsettled({});
  }
}

void Reconciler::work() {
  while (goesOn()) {
    const store::MonotonicTime now = steady_clock::now();
    openStore(now);
    giveUpLost(now);
    lookForDue(now);
    countUnsettled(now);
    for (const auto& [id, answer] : inbox_->takeBy(nextTime())) {
      onAnswer(id, answer);
    }
  }
}

bool Reconciler::goesOn() const {
  return inbox_->works();
}

void Reconciler::openStore(store::MonotonicTime now) {
  if (store_ != nullptr || now < open_due_) {
    return;
  }
  absl::StatusOr<std::unique_ptr<store::OperatorStore>> opened = open_();
  if (opened.ok()) {
    store_ = *std::move(opened);
  } else {
    onStoreFailed(opened.status());
  }
}

void Reconciler::onStoreFailed(const absl::Status& status) {
  store_.reset();
  open_due_ = steady_clock::now() + options_.store_pause;
  observer_->onStoreFailed(std::string(status.message()));
}

store::Deadline Reconciler::nextTime() const {
  store::Deadline next = store_ == nullptr ? open_due_ : count_due_;
  for (size_t i = 0; store_ != nullptr && i < entries_.size(); ++i) {
    if (entries_[i].asked < options_.entries[i].max_parallel) {
      next = std::min(next, entries_[i].due);
    }
  }
  for (const auto& [id, asked] : asked_) {
    next = std::min(next, asked.lost_at);
  }
  return next;
}

// --- Asking -------------------------------------------------------------------------------------

void Reconciler::lookForDue(store::MonotonicTime now) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (store_ != nullptr && now >= entries_[i].due && goesOn() &&
        entries_[i].asked < options_.entries[i].max_parallel) {
      takeDue(i, now);
    }
  }
}

void Reconciler::takeDue(size_t entry, store::MonotonicTime now) {
  const protocol::ReconcileSettings& settings = options_.entries[entry];
  const auto limit = static_cast<uint32_t>(settings.max_parallel - entries_[entry].asked);
  const auto hold = settings.timeout + options_.answer_grace + options_.write_time;
  absl::StatusOr<std::vector<store::DueRecord>> due =
      store_->takeDue(operations_[entry], hold, limit);
  if (!due.ok()) {
    return onStoreFailed(due.status());
  }
  // As many as there was room for: there may be more, as soon as there is room again.
  if (due->size() < limit) {
    entries_[entry].due = now + options_.look_interval;
  }
  for (store::DueRecord& record : *due) {
    ask(entry, std::move(record), now);
  }
}

void Reconciler::ask(size_t entry, store::DueRecord due, store::MonotonicTime now) {
  const protocol::ReconcileSettings& settings = options_.entries[entry];
  const protocol::Identity& identity = due.claim.identity;
  const protocol::Attempt attempt = due.claim.attempt;
  std::optional<std::string> path = settings.path.path(identity, attempt);
  if (!path.has_value()) {
    return giveUp(due, "not asked: a segment of the path would be . or ..");
  }
  Question question{.cluster = settings.cluster,
                    .method = settings.method,
                    .path = *std::move(path),
                    .authority = settings.authority,
                    .headers = {},
                    .timeout = settings.timeout,
                    .max_answer_bytes = maxAnswerBytes(settings)};
  for (const protocol::QuestionHeader& header : settings.headers) {
    question.headers.emplace_back(header.name, header.value.headerValue(identity, attempt));
  }
  const uint64_t id = ++last_id_;
  observer_->onAsked(due.tries <= 1);
  asked_.emplace(id, Asked{std::move(due), entry, now + settings.timeout + options_.answer_grace});
  ++entries_[entry].asked;
  asker_.ask(std::move(question), [inbox = inbox_, id](message::OutcomeAnswer answer) {
    inbox->put(id, std::move(answer));
  });
}

void Reconciler::giveUpLost(store::MonotonicTime now) {
  std::vector<uint64_t> lost;
  for (const auto& [id, asked] : asked_) {
    if (now >= asked.lost_at) {
      lost.push_back(id);
    }
  }
  for (const uint64_t id : lost) {
    onAnswer(id, noAnswer("no answer in time"));
  }
}

// --- Answers ------------------------------------------------------------------------------------

void Reconciler::onAnswer(uint64_t id, const message::OutcomeAnswer& answer) {
  const auto found = asked_.find(id);
  if (found == asked_.end()) {
    return;  // Too late: another process may have the record by now.
  }
  const Asked asked = std::move(found->second);
  asked_.erase(found);
  --entries_[asked.entry].asked;
  if (goesOn()) {
    apply(asked, answer);
  }
}

void Reconciler::apply(const Asked& asked, const message::OutcomeAnswer& answer) {
  const protocol::ReconcileSettings& settings = options_.entries[asked.entry];
  const protocol::AnswerRule& rule =
      protocol::judgeAnswer(settings, message::observe(settings, answer, asked.due.claim_age));
  const std::string said = message::describe(rule, answer);
  if (!rule.answered) {
    observer_->onUnanswered(settings.cluster, said);
  }
  switch (rule.finding) {
    case protocol::Finding::Ran: {
      absl::StatusOr<protocol::Completed> result = message::resultOf(settings, answer);
      if (result.ok() && change(asked.due, *std::move(result), said)) {
        observer_->onSettled();
      }
      return;
    }
    case protocol::Finding::NotRun:
      if (change(asked.due, store::NotRun(), said)) {
        observer_->onSettled();
      }
      return;
    case protocol::Finding::AskAgain:
      break;
  }
  if (asked.due.tries >= settings.max_tries) {
    return giveUp(asked.due, said);
  }
  const auto after = protocol::retryDelay(settings, asked.due.tries, random_());
  change(asked.due, store::AskAgain{.after = after, .start_over = false}, said);
}

void Reconciler::giveUp(const store::DueRecord& due, const std::string& last_answer) {
  if (change(due, store::GiveUp(), fmt::format("{} tries, last: {}", due.tries, last_answer))) {
    observer_->onDeadLetter(due.claim, due.tries, last_answer);
  }
}

bool Reconciler::change(const store::DueRecord& due, store::OperatorAction action,
                        std::string reason) {
  if (store_ == nullptr) {
    return false;  // It is asked again when its hold is over.
  }
  store::OperatorChange change;
  change.seen = due.claim;
  change.action = std::move(action);
  change.actor = Actor;
  change.reason = std::move(reason);
  const absl::StatusOr<store::ChangeResult> result = store_->change(change);
  if (!result.ok()) {
    onStoreFailed(result.status());
    return false;
  }
  // Otherwise another has settled the record in the meantime.
  return result->outcome == store::ChangeOutcome::Done;
}

// --- Counting -----------------------------------------------------------------------------------

void Reconciler::countUnsettled(store::MonotonicTime now) {
  if (store_ == nullptr || now < count_due_ || !goesOn()) {
    return;
  }
  const absl::StatusOr<std::vector<store::UnsettledUse>> unsettled = store_->unsettled();
  count_due_ = steady_clock::now() + options_.count_interval;
  if (unsettled.ok()) {
    observer_->onUnsettled(*unsettled);
  } else {
    onStoreFailed(unsettled.status());
  }
}

}  // namespace idempotency::runtime
