#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "test/fuzz/filter/ledger.h"
#include "test/fuzz/filter/message.h"
#include "test/fuzz/filter/plans.h"
#include "test/fuzz/filter/requests.h"
#include "test/fuzz/filter/upstream.h"
#include "test/support/fake_envoy.h"

namespace idempotency::fuzz {

// One stream, as Envoy plays it: what the client and the upstream give, in pieces, what the filter
// lets through, and what must hold of that. Any call may find it in any state: what Envoy would not
// do then is not done.
class Exchange {
public:
  struct Place {
    uint64_t number = 0;                   // No two have the same.
    std::shared_ptr<fake::Config> config;  // Lives as long as the stream.
    const ConfigPlan* config_plan = nullptr;
    const fake::Route* route = nullptr;
    Ledger* ledger = nullptr;
    store::StoreTime came{};  // By the store's clock.
    // Whether the store has failed somebody so far, or somebody was too slow for it.
    const bool* troubled = nullptr;
    // Whether there are as many others now as the limits of the config allow.
    std::function<bool()> crowded;
  };
  // A request that comes again because Envoy follows a redirect.
  struct Redirect {
    protocol::FieldList headers;
    std::string body;
    protocol::Attempt attempt = 0;
    const RoutePlan* claim_route = nullptr;
  };

  Exchange(Place place, RequestPlan plan);
  ~Exchange();
  Exchange(const Exchange&) = delete;

  // --- The client
  void begin();
  void beginAgain(const Redirect& redirect);
  void sendBody(const std::string& piece, bool end);
  void sendTrailers();

  // --- The upstream
  void answerHeaders(const UpstreamHead& head, bool end);
  void answerBody(size_t piece, bool end);
  void answerTrailers(size_t which);

  // --- Envoy
  // Somebody answers in place of the upstream. Where a held answer makes way the new one passes the
  // filters or goes straight to the client.
  void replyLocally(const LocalReply& reply, bool through_filters);
  // The router will answer so, inside the very call by which the filter lets the request go on.
  void armRouter(const LocalReply& reply) { router_reply_ = &reply; }
  // What comes again; none: this is no time for a redirect.
  std::optional<Redirect> followRedirect();
  // The stream ends. `late`: events still come between its end and the filter's.
  void depart(const char* details, bool late);
  // What other threads have for it.
  void deliver();

  // --- State
  bool isOver() const { return over_; }
  bool requestOpen() const { return !over_ && sent_.begun && !sent_.whole && !locally_; }
  // The upstream can answer, or answer further.
  bool upstreamOpen() const { return !over_ && received_.begun && !given_.whole && !locally_; }
  bool answerBegun() const { return given_.begun; }
  // The filter holds what nobody but itself can let go.
  bool isHeld() const;
  bool hasEvents() const { return !over_ && stream_->events->waiting() > 0; }
  const RequestPlan& plan() const { return plan_; }
  const Place& place() const { return place_; }
  // What the client got; 0: nothing whole.
  int status() const { return status_; }

private:
  // Runs a hook of the filter, or several.
  template <class Work>
  void act(const Work& work);
  void afterHook();

  // What the filter let go on.
  void goOn();
  void passRequest(const std::string& bytes);
  void onContinueRequest();
  void onContinueAnswer();
  void passAnswer(const std::string& bytes);
  void onAnswerGone();
  // The stream is over, for the client too.
  void finish();

  void giveHeaders(const protocol::FieldList& headers, bool end);
  void giveBody(const std::string& chunk, bool end);
  void giveTrailers(const protocol::FieldList& trailers);
  void giveEnd();
  void endAttempt(Truth truth, std::optional<WholeAnswer> answer = std::nullopt);
  void endAttemptLocally(const LocalReply& reply);
  void endAttemptCut();
  int judgedStatus() const;
  bool isSilent() const;
  WholeAnswer wholeAnswer() const;
  WholeAnswer partOfAnswer(protocol::Tombstone tombstone) const;
  void setDetails(const std::string& details, uint64_t attempts, uint64_t flags = 0);

  // What must hold.
  bool isUnprotectedAllowed() const;
  void checkMayGoOn() const;
  void checkRequestWhole() const;
  void checkAnswer() const;
  void checkStored() const;
  void checkReply() const;
  void checkProblem(protocol::Problem problem) const;
  bool mayRefuse(protocol::Problem problem) const;
  std::string text() const;
  std::string outcome() const;

  const Place place_;
  Ledger& ledger_;
  const RequestPlan plan_;
  Claimant claimant_;
  std::unique_ptr<fake::Stream> stream_;
  Message sent_;                        // By the client,
  Message received_;                    // and what of it the upstream got.
  Message given_;                       // By the upstream, or by whoever answers in its place,
  Message got_;                         // and what of it the client got.
  const UpstreamHead* head_ = nullptr;  // Of given_, if it is not in place of the upstream's.
  const LocalReply* router_reply_ = nullptr;
  const RoutePlan* claim_route_ = nullptr;
  protocol::Attempt attempt_ = 0;  // Under which it runs; 0: none.
  bool attempt_ended_ = false;
  bool unprotected_ = false;    // It went on although it should have been claimed.
  bool early_headers_ = false;  // The client got them before the answer's end was there.
  bool known_endless_ = false;  // The headers alone say that the answer is too long.
  bool locally_ = false;        // Somebody answered in place of the upstream.
  bool replaced_ = false;       // In place of an answer that was there already.
  bool over_ = false;
  int acting_ = 0;  // How many act() there are on the stack.
  int inside_ = 0;  // How many calls of the filter to Envoy.
  size_t pieces_ = 0;
  int status_ = 0;
  store::Deadline whole_since_{};  // When the end of the answer was given.
};

// Here, since two files use it.
template <class Work>
void Exchange::act(const Work& work) {
  const Claimant* const before = ledger_.actsFor(&claimant_);
  ++acting_;
  work();
  --acting_;
  ledger_.actsFor(before);
  if (acting_ == 0) {
    afterHook();
  }
}

}  // namespace idempotency::fuzz
