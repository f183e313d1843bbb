// The life of an attempt, without an Envoy and without a store.
#include "source/request/running_attempt.h"

#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "test/request/fake_keeper.h"
#include "test/request/task_queue.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Phase = request::RunningAttempt::Phase;

// A response whose parts a test sets before the hook that shows them.
class FakeResponse : public request::UpstreamResponse {
public:
  int status() const override { return code; }
  protocol::DeclaredOutcome takeDeclaredInHeaders() override { return in_headers; }
  protocol::DeclaredOutcome takeDeclaredInTrailers() override { return in_trailers; }
  bool announcesDeclaration() const override { return announces; }
  bool isTooLongToHold(const protocol::Policy&) const override { return too_long; }
  protocol::Observation observeCall() const override {
    protocol::Observation seen;
    seen.details = details;
    seen.attempts = 1;
    return seen;
  }
  void observeWhole(std::optional<std::string_view> begin,
                    protocol::Observation& seen) const override {
    seen.complete = true;
    seen.status = code;
    seen.judged_status = code;
    begins.emplace_back(begin.value_or("(at hand)"));
  }
  std::optional<request::ResponseFields> fieldsToStore(const protocol::Policy&) const override {
    return storable ? std::optional(request::ResponseFields{{{"x-a", "1"}}, {}}) : std::nullopt;
  }
  uint64_t bodySize() const override { return text.size(); }
  std::string body() const override { return text; }
  std::string beginning() const override { return text.substr(0, 4); }
  void allowToHold(uint64_t bytes) override { allowed = bytes; }
  void mark(const request::ResponseMark& what) override { marks.push_back(what); }

  int code = 201;
  std::string text = "made";
  std::string details = "via_upstream";
  protocol::DeclaredOutcome in_headers = protocol::DeclaredOutcome::None;
  protocol::DeclaredOutcome in_trailers = protocol::DeclaredOutcome::None;
  bool announces = false;
  bool too_long = false;
  bool storable = true;

  mutable std::vector<std::string> begins;
  uint64_t allowed = 0;
  std::vector<request::ResponseMark> marks;
};

class FakeAttemptStream : public request::AttemptStream {
public:
  request::Post post() override { return worker.post(); }
  const std::string& keyHash() const override { return key_hash; }
  void continueResponse() override { ++continued; }
  bool continueWith(const runtime::CompletedRecord& completed) override {
    if (can_replace) {
      replaced_by.push_back(completed.response);
    }
    return can_replace;
  }
  void onEnding(const protocol::AttemptEnding& ending) override { endings.push_back(ending); }
  void onWritten(bool stored, store::Deadline) override { written.push_back(stored); }
  void onCompletedByUpstream(store::Deadline) override { ++by_upstream; }
  void onNoRoomForResponse() override { ++no_room; }

  TaskQueue worker;
  std::string key_hash = "hash";
  int continued = 0;
  int no_room = 0;
  int by_upstream = 0;
  bool can_replace = true;
  std::vector<protocol::StoredResponse> replaced_by;
  std::vector<protocol::AttemptEnding> endings;
  std::vector<bool> written;
};

class RunningAttemptTest : public ::testing::Test {
protected:
  request::RunningAttempt& attempt() {
    if (!attempt_.has_value()) {
      place_ = admission_->enterHolder("acme", nullptr);
      runtime::HeldClaim claim;
      claim.ref = {{"acme", "pay", "0123456789abcdef"}, 7};
      claim.fingerprint = "fingerprint";
      claim.policy = std::make_shared<const protocol::Policy>(policy_);
      claim.expires_at = store::StoreTime(1'700'000'000s);
      claim.asked = asked_;
      attempt_.emplace(keeper_, stream_, response_, place_, std::move(claim));
    }
    return *attempt_;
  }
  // The keeper's report reaches the stream.
  void report(runtime::Settled settled) {
    ASSERT_FALSE(keeper_.settled.empty());
    keeper_.settled.back().report({settled, ""});
    stream_.worker.run();
  }
  template <class Kind>
  const Kind& written() {
    EXPECT_EQ(keeper_.settled.size(), 1u) << "exactly once";
    return std::get<Kind>(keeper_.settled.front().ending);
  }
  void useHeldBytes(uint64_t bytes) {
    protocol::LimitSettings limits;
    limits.held_bytes = bytes;
    admission_ = std::make_unique<runtime::Admission>(limits);
  }

  protocol::Policy policy_;
  store::Deadline asked_ = std::chrono::steady_clock::now();
  std::unique_ptr<runtime::Admission> admission_ =
      std::make_unique<runtime::Admission>(protocol::LimitSettings());
  runtime::Admission::Place place_;
  FakeKeeper keeper_;
  FakeAttemptStream stream_;
  FakeResponse response_;
  std::optional<request::RunningAttempt> attempt_;
};

// --- A whole response

TEST_F(RunningAttemptTest, ResponseIsHeldUntilItIsStored) {
  EXPECT_EQ(attempt().phase(), Phase::Running);
  attempt().onHeaders(false);
  EXPECT_EQ(attempt().phase(), Phase::Gathering);
  attempt().onBody(false);
  EXPECT_TRUE(attempt().holdsResponse());
  EXPECT_EQ(admission_->heldBytes(), 4u);
  attempt().onBody(true);
  EXPECT_EQ(attempt().phase(), Phase::Settling);
  EXPECT_TRUE(attempt().holdsResponse());
  EXPECT_FALSE(attempt().isOpen());
  EXPECT_EQ(stream_.continued, 0);
  EXPECT_THAT(response_.marks, IsEmpty());

  report(runtime::Settled::Done);
  EXPECT_EQ(attempt().phase(), Phase::Over);
  EXPECT_EQ(stream_.continued, 1);
  EXPECT_THAT(stream_.written, ElementsAre(true));
  ASSERT_EQ(response_.marks.size(), 1u);
  EXPECT_TRUE(response_.marks[0].stored);
  EXPECT_EQ(response_.marks[0].expires_at, 1'700'000'000);
  EXPECT_EQ(admission_->heldBytes(), 0u);
  EXPECT_EQ(written<protocol::Completed>().status, 201);
  EXPECT_EQ(written<protocol::Completed>().tombstone, protocol::Tombstone::None);
  const auto& completed = keeper_.settled.front().completed;
  ASSERT_NE(completed, nullptr);
  EXPECT_EQ(completed->response.body, "made");
  EXPECT_EQ(completed->attempt, 7);
  EXPECT_EQ(completed->key_hash, "hash");
  EXPECT_THAT(stream_.endings, ElementsAre(protocol::AttemptEnding{
                                   protocol::EndingKind::Completed, protocol::Tombstone::None,
                                   "result", protocol::OutcomeBasis::Response}));
}

TEST_F(RunningAttemptTest, ResponseEndsWithHeadersOrTrailers) {
  attempt().onHeaders(true);
  EXPECT_EQ(attempt().phase(), Phase::Settling);
  attempt_.reset();
  attempt().onHeaders(false);
  attempt().onTrailers();
  EXPECT_EQ(attempt().phase(), Phase::Settling);
  EXPECT_EQ(keeper_.settled.size(), 2u);
}

TEST_F(RunningAttemptTest, ResponseThatCouldNotBeStoredSaysSo) {
  for (const runtime::Settled settled :
       {runtime::Settled::NotYet, runtime::Settled::Never, runtime::Settled::Fenced}) {
    attempt_.reset();
    response_.marks.clear();
    attempt().onHeaders(true);
    report(settled);
    ASSERT_EQ(response_.marks.size(), 1u);
    EXPECT_FALSE(response_.marks[0].stored);
    EXPECT_EQ(response_.marks[0].expires_at, std::nullopt);
  }
  EXPECT_THAT(stream_.written, ElementsAre(false, false, false));
  EXPECT_EQ(stream_.continued, 3) << "the client gets it all the same";
}

TEST_F(RunningAttemptTest, ExpiryIsNotShownWhereThereIsNoneOrItMayHaveChanged) {
  response_.code = 502;  // Unknown: the record has no end.
  attempt().onHeaders(true);
  report(runtime::Settled::Done);
  EXPECT_EQ(response_.marks.back().expires_at, std::nullopt);

  attempt_.reset();
  response_.code = 201;
  asked_ -= policy_.ttl;
  attempt().onHeaders(true);
  report(runtime::Settled::Done);
  EXPECT_EQ(response_.marks.back().expires_at, std::nullopt);
}

TEST_F(RunningAttemptTest, ResponseThatMustNotBeReplayedIsNotKept) {
  response_.storable = false;
  attempt().onHeaders(true);
  EXPECT_EQ(written<protocol::Completed>().tombstone, protocol::Tombstone::Unstorable);
  EXPECT_EQ(written<protocol::Completed>().response, "");
  EXPECT_EQ(keeper_.settled.front().completed, nullptr);
}

TEST_F(RunningAttemptTest, RetryableStatusIsTheErrorOfTheRecord) {
  response_.code = 503;
  attempt().onHeaders(true);
  EXPECT_EQ(written<protocol::Failed>().error, "status_503");
}

// --- A response that is too long

TEST_F(RunningAttemptTest, ResponseKnownToBeTooLongStreamsOnButItsEndIsHeld) {
  response_.too_long = true;
  attempt().onHeaders(false);
  EXPECT_EQ(attempt().phase(), Phase::Overflowing);
  EXPECT_FALSE(attempt().holdsResponse());
  EXPECT_EQ(response_.marks.size(), 1u) << "now, because its headers go";
  attempt().onBody(false);
  EXPECT_FALSE(attempt().holdsResponse());
  response_.text = "the last part";
  attempt().onBody(true);
  EXPECT_TRUE(attempt().holdsResponse());
  EXPECT_EQ(response_.allowed, response_.text.size());
  EXPECT_EQ(written<protocol::Completed>().tombstone, protocol::Tombstone::TooLarge);
  report(runtime::Settled::Done);
  EXPECT_EQ(stream_.continued, 1);
  EXPECT_EQ(response_.marks.size(), 1u) << "its headers are gone";
}

TEST_F(RunningAttemptTest, BodyThatGrowsOverTheLimitStreamsOn) {
  policy_.max_response_bytes = 4;
  attempt().onHeaders(false);
  attempt().onBody(false);
  EXPECT_EQ(attempt().phase(), Phase::Gathering);
  response_.text = "made!";
  attempt().onBody(false);
  EXPECT_EQ(attempt().phase(), Phase::Overflowing);
  EXPECT_EQ(response_.allowed, response_.text.size()) << "Envoy holds all of it for a moment";
  EXPECT_EQ(admission_->heldBytes(), 0u);
  attempt().onTrailers();
  EXPECT_EQ(written<protocol::Completed>().tombstone, protocol::Tombstone::TooLarge);
}

TEST_F(RunningAttemptTest, BodyWithoutRoomStreamsOn) {
  useHeldBytes(0);
  response_.text.assign(runtime::Admission::SmallResponse + 1, 'x');
  attempt().onHeaders(false);
  attempt().onBody(false);
  EXPECT_EQ(attempt().phase(), Phase::Overflowing);
  EXPECT_EQ(stream_.no_room, 1);
}

TEST_F(RunningAttemptTest, LongErrorIsJudgedByItsBeginning) {
  response_.code = 503;
  response_.text = "no_healthy_upstream" + std::string(policy_.max_response_bytes, ' ');
  attempt().onHeaders(false);
  attempt().onBody(false);
  EXPECT_EQ(attempt().phase(), Phase::Overflowing);
  response_.text = "the rest";
  attempt().onBody(true);
  EXPECT_THAT(response_.begins, ElementsAre("no_h"));
}

// --- Declarations

TEST_F(RunningAttemptTest, DeclarationsMustAgree) {
  response_.in_headers = protocol::DeclaredOutcome::Retryable;
  response_.in_trailers = protocol::DeclaredOutcome::Completed;
  attempt().onHeaders(false);
  attempt().onTrailers();
  EXPECT_EQ(stream_.endings.back().basis, protocol::OutcomeBasis::InvalidDeclaration);
  EXPECT_EQ(written<protocol::Unknown>().error, "declared_invalid");
}

TEST_F(RunningAttemptTest, AnnouncedDeclarationThatIsMissingCountsAsInvalid) {
  response_.announces = true;
  attempt().onHeaders(false);
  attempt().onBody(true);
  EXPECT_EQ(stream_.endings.back().basis, protocol::OutcomeBasis::InvalidDeclaration);
}

TEST_F(RunningAttemptTest, CutResponseMayHaveContradictedItsHeaders) {
  response_.in_headers = protocol::DeclaredOutcome::NotRun;
  attempt().onHeaders(false);
  attempt().end();
  EXPECT_EQ(stream_.endings.back().kind, protocol::EndingKind::Released);

  attempt_.reset();
  response_.announces = true;
  attempt().onHeaders(false);
  attempt().end();
  EXPECT_EQ(stream_.endings.back().kind, protocol::EndingKind::Unknown);
}

// --- No response

TEST_F(RunningAttemptTest, RequestThatWasNeverSentIsReleased) {
  response_.details = "no_healthy_upstream";
  attempt().onOtherAnswer();
  EXPECT_TRUE(attempt().holdsResponse()) << "the reply waits";
  written<protocol::Released>();
  report(runtime::Settled::Done);
  EXPECT_EQ(stream_.continued, 1);
}

TEST_F(RunningAttemptTest, UpstreamThatDoesNotAnswerIsUnknown) {
  response_.details = "response_timeout{why}";
  attempt().onOtherAnswer();
  EXPECT_EQ(written<protocol::Unknown>().error, "response_timeout");
  EXPECT_EQ(written<protocol::Unknown>().reconcile_after, 3s);
}

TEST_F(RunningAttemptTest, ReplyThatReplacesABegunResponseIsNoProofOfAnything) {
  attempt().onHeaders(false);
  response_.details = "no_healthy_upstream";
  attempt().onOtherAnswer();
  written<protocol::Unknown>();
}

TEST_F(RunningAttemptTest, ReplyThatTakesThePlaceOfAHeldResponseIsNotContinued) {
  attempt().onHeaders(true);
  attempt().stopHolding();
  EXPECT_FALSE(attempt().holdsResponse());
  report(runtime::Settled::Done);
  EXPECT_EQ(stream_.continued, 0);
  EXPECT_THAT(response_.marks, IsEmpty());
}

// --- Own transactions

class OwnTransactionAttemptTest : public RunningAttemptTest {
protected:
  OwnTransactionAttemptTest() { policy_.own_transaction = true; }

  void reportCompletedByUpstream() {
    ASSERT_FALSE(keeper_.settled.empty());
    auto completed = std::make_shared<runtime::CompletedRecord>();
    completed->response = {201, {}, "by the upstream", {}};
    keeper_.settled.back().report({runtime::Settled::ByUpstream, "", completed});
    stream_.worker.run();
  }
  void expectReplaced() {
    ASSERT_EQ(stream_.replaced_by.size(), 1u);
    EXPECT_EQ(stream_.replaced_by[0].body, "by the upstream");
    EXPECT_EQ(stream_.continued, 0) << "it goes on with that";
    EXPECT_EQ(stream_.by_upstream, 1);
    EXPECT_THAT(stream_.written, IsEmpty());
    EXPECT_THAT(response_.marks, IsEmpty());
    EXPECT_EQ(attempt().phase(), Phase::Over);
    EXPECT_EQ(admission_->heldBytes(), 0u);
  }
};

TEST_F(OwnTransactionAttemptTest, ResponseIsReplacedByWhatTheUpstreamHasCompleted) {
  attempt().onHeaders(false);
  attempt().onBody(true);
  reportCompletedByUpstream();
  expectReplaced();
}

TEST_F(OwnTransactionAttemptTest, ReplyOfEnvoyIsReplacedToo) {
  response_.details = "response_timeout";
  attempt().onOtherAnswer();
  reportCompletedByUpstream();
  expectReplaced();
}

TEST_F(OwnTransactionAttemptTest, ResponseWhoseHeadersAreGoneCannotBeReplaced) {
  response_.too_long = true;
  attempt().onHeaders(false);
  attempt().onBody(true);
  reportCompletedByUpstream();
  EXPECT_THAT(stream_.replaced_by, IsEmpty());
  EXPECT_EQ(stream_.continued, 1);
  EXPECT_EQ(stream_.by_upstream, 1);
  EXPECT_THAT(response_.marks, ElementsAre(::testing::Field(&request::ResponseMark::stored, true)))
      << "before, when they went";
}

TEST_F(OwnTransactionAttemptTest, ResultThatCannotBeSentLeavesTheTrueAnswer) {
  stream_.can_replace = false;
  attempt().onHeaders(true);
  reportCompletedByUpstream();
  EXPECT_EQ(stream_.continued, 1);
  ASSERT_EQ(response_.marks.size(), 1u);
  EXPECT_FALSE(response_.marks[0].stored);
}

TEST_F(OwnTransactionAttemptTest, StreamThatHasEndedHearsNothingOfIt) {
  attempt().onHeaders(false);
  attempt().end();
  ASSERT_EQ(keeper_.settled.size(), 1u);
  EXPECT_EQ(keeper_.settled[0].report, nullptr);
}

TEST_F(OwnTransactionAttemptTest, WithRetryAnAttemptThatIsLostLetsTheNextRequestRun) {
  policy_.on_lease_expired = protocol::LeaseExpired::Retry;
  attempt();
  attempt_.reset();
  EXPECT_EQ(written<protocol::Failed>().error, "stream_lost");
}

TEST_F(OwnTransactionAttemptTest, WithRetryAnAttemptThatEndsEarlyLetsTheNextRequestRun) {
  policy_.on_lease_expired = protocol::LeaseExpired::Retry;
  attempt().onHeaders(false);
  attempt().end();
  written<protocol::Failed>();
}

TEST_F(OwnTransactionAttemptTest, WithRetryADeclarationOfUnknownStays) {
  policy_.on_lease_expired = protocol::LeaseExpired::Retry;
  response_.in_headers = protocol::DeclaredOutcome::Unknown;
  attempt().onHeaders(false);
  attempt().end();
  written<protocol::Unknown>();
}

TEST_F(OwnTransactionAttemptTest, WithoutRetryAnAttemptThatIsLostIsUnknown) {
  attempt();
  attempt_.reset();
  written<protocol::Unknown>();
}

// --- The end

TEST_F(RunningAttemptTest, StreamThatEndsEarlySettlesOnce) {
  attempt().onHeaders(false);
  EXPECT_TRUE(attempt().isOpen());
  EXPECT_FALSE(attempt().end());
  EXPECT_FALSE(attempt().isOpen());
  EXPECT_EQ(attempt().phase(), Phase::Over);
  EXPECT_FALSE(attempt().end());
  attempt_.reset();
  EXPECT_EQ(written<protocol::Unknown>().error, "via_upstream");
}

TEST_F(RunningAttemptTest, StreamThatEndsWhileTheOutcomeIsWrittenHearsNothingOfIt) {
  attempt().onHeaders(true);
  EXPECT_FALSE(attempt().end());
  report(runtime::Settled::Done);
  EXPECT_EQ(stream_.continued, 0);
  written<protocol::Completed>();
}

TEST_F(RunningAttemptTest, RedirectedClaimIsPassedOn) {
  response_.details = "internal_redirect";
  EXPECT_TRUE(attempt().end());
  attempt_.reset();
  ASSERT_EQ(keeper_.passed_on.size(), 1u);
  EXPECT_EQ(keeper_.passed_on[0].ref.attempt, 7);
  EXPECT_TRUE(keeper_.passed_on[0].redirected);
  EXPECT_THAT(keeper_.settled, IsEmpty());
}

TEST_F(RunningAttemptTest, AttemptThatIsDestroyedIsUnknown) {
  attempt();
  attempt_.reset();
  EXPECT_EQ(written<protocol::Unknown>().error, "stream_lost");
  EXPECT_THAT(keeper_.let_end, IsEmpty());
}

TEST_F(RunningAttemptTest, WithoutMemoryTheClaimStaysForALaterTry) {
  keeper_.failures = 1;
  attempt().onHeaders(false);
  EXPECT_THROW(attempt().onBody(true), std::bad_alloc);
  EXPECT_TRUE(attempt().isOpen());
  attempt().end();
  EXPECT_FALSE(attempt().isOpen());
  written<protocol::Unknown>();
}

TEST_F(RunningAttemptTest, WithoutAnyMemoryTheLeaseEnds) {
  keeper_.failures = 2;
  EXPECT_THROW(attempt().end(), std::bad_alloc);
  attempt_.reset();
  EXPECT_THAT(keeper_.let_end, ElementsAre(7));
  EXPECT_THAT(keeper_.settled, IsEmpty());
}

}  // namespace
}  // namespace idempotency::test
