// The input is a play for the whole filter on the fake Envoy: what clients, upstreams, stores,
// clocks and Envoy itself do, in any order. The first byte says with which config and which Envoy
// it begins; then each event is a letter, and digits for its choices (see filter/event_bytes.h):
//
//   n SLOT ROUTE KEY PIECE    a request, whole            h SLOT ROUTE KEY QUIRK  its headers
//   d SLOT PIECE END          a piece of its body         t SLOT                  its trailers
//   u SLOT HEAD END           the upstream's headers      b SLOT PIECE END        of its body
//   y SLOT TRAILERS           its trailers                q SLOT ROUTE NEW        a redirect
//   i SLOT REPLY THROUGH      Envoy answers               z SLOT REPLY            … at once, later
//   p SLOT HOW LATE           the client leaves           e CONFIG REFUSES        a new config
//   s FATE                    a step of the store         o STORE PLACE FATE      any step
//   f                         all steps                   l                       late answers
//   x                         the store's deadlines       m                       timers
//   r SLOT                    events for a stream         a                       for all
//   g                         the store and all events until nobody has anything to do
//   w TIME                    time passes                 k TIME                  … with x and m
//   c TIME                    the store's clock alone     v JOB                   maintenance
//
// With FILTER_FUZZ_STORY in the environment the events go to stderr, as they would be written by
// hand, and what each request got.
#include <array>
#include <chrono>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"

#include "test/fuzz/filter/event_bytes.h"
#include "test/fuzz/filter/stage.h"
#include "test/fuzz/filter/story.h"
#include "test/fuzz/fuzz.h"

namespace idempotency::fuzz {
namespace {

using namespace std::chrono_literals;

// Longer inputs find nothing that shorter ones do not, only later.
constexpr int MostEvents = 200;

constexpr std::array Times = {10ms,  1ms,    100ms,  200ms,  300ms,
                              400ms, 1000ms, 3000ms, 6000ms, 21000ms};
constexpr size_t FateCount = 9;
static_assert(static_cast<size_t>(test::StepFate::AnsweredLate) + 1 == FateCount);

// The fake Envoy reports what would crash the real one as a failed test.
class Alarm : public ::testing::EmptyTestEventListener {
public:
  static void install() {
    static const bool installed = [] {
      ::testing::UnitTest::GetInstance()->listeners().Append(new Alarm);
      return true;
    }();
    static_cast<void>(installed);
  }
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (result.failed()) {
      violated(result.message());
    }
  }
};

class Director {
public:
  Director(Stage& stage, EventBytes& bytes) : stage_(stage), bytes_(bytes) {}

  void play(char event) {
    switch (event) {
      case 'n':
        return sendWhole();
      case 'h':
        return sendHeaders();
      case 'd':
      case 't':
      case 'u':
      case 'b':
      case 'y':
      case 'i':
      case 'z':
      case 'p':
      case 'r':
        return playStream(event);
      case 'q': {
        const size_t at = slot();
        const size_t route = bytes_.choice(routePlans().size());
        return stage_.redirect(at, route, flag());
      }
      case 'e': {
        const size_t config = bytes_.choice(configPlans().size());
        return stage_.reload(config, static_cast<test::OpenedStores::LastWords>(flag()));
      }
      default:
        return playRest(event);
    }
  }

private:
  size_t slot() { return bytes_.choice(Stage::Slots); }
  bool flag() { return bytes_.choice(2) == 1; }
  Stage::Time time() { return Times.at(bytes_.choice(Times.size())); }
  test::StepFate fate() { return static_cast<test::StepFate>(bytes_.choice(FateCount)); }

  void sendWhole() {
    const size_t at = slot();
    const size_t route = bytes_.choice(routePlans().size());
    const size_t key = bytes_.choice(KeyCount);
    const size_t piece = bytes_.choice(PieceCount);
    if (Exchange* const exchange = stage_.start(at, route, key, Quirk::None)) {
      exchange->sendBody(requestPiece(piece), true);
    }
  }

  void sendHeaders() {
    const size_t at = slot();
    const size_t route = bytes_.choice(routePlans().size());
    const size_t key = bytes_.choice(KeyCount);
    stage_.start(at, route, key, static_cast<Quirk>(bytes_.choice(QuirkCount)));
  }

  // Choices are read also where there is nobody to act on: what comes after keeps its meaning.
  void playStream(char event) {
    Exchange* const exchange = stage_.at(slot());
    switch (event) {
      case 'd': {
        const size_t piece = bytes_.choice(PieceCount);
        const bool end = flag();
        return on(exchange, [&](Exchange& on) { on.sendBody(requestPiece(piece), end); });
      }
      case 't':
        return on(exchange, [](Exchange& on) { on.sendTrailers(); });
      case 'u': {
        const UpstreamHead& head = upstreamHeads()[bytes_.choice(upstreamHeads().size())];
        const bool end = flag();
        return on(exchange, [&](Exchange& on) { on.answerHeaders(head, end); });
      }
      case 'b': {
        const size_t piece = bytes_.choice(BodyPieceCount);
        const bool end = flag();
        return on(exchange, [&](Exchange& on) { on.answerBody(piece, end); });
      }
      case 'y': {
        const size_t which = bytes_.choice(TrailersCount);
        return on(exchange, [&](Exchange& on) { on.answerTrailers(which); });
      }
      default:
        return playEnvoy(event, exchange);
    }
  }

  void playEnvoy(char event, Exchange* exchange) {
    switch (event) {
      case 'i': {
        const LocalReply& reply = localReplies()[bytes_.choice(localReplies().size())];
        const bool through = flag();
        return on(exchange, [&](Exchange& on) { on.replyLocally(reply, through); });
      }
      case 'z': {
        const LocalReply& reply = localReplies()[bytes_.choice(localReplies().size())];
        return on(exchange, [&](Exchange& on) { on.armRouter(reply); });
      }
      case 'p': {
        const char* const details = departures()[bytes_.choice(departures().size())];
        const bool late = flag();
        return on(exchange, [&](Exchange& on) { on.depart(details, late); });
      }
      default:
        return on(exchange, [](Exchange& on) { on.deliver(); });
    }
  }

  template <class Work>
  static void on(Exchange* exchange, const Work& work) {
    if (exchange != nullptr) {
      work(*exchange);
    }
  }

  void playRest(char event) {
    switch (event) {
      case 's':
        return stage_.stepOldest(fate());
      case 'o': {
        const size_t store = bytes_.choice(configPlans().size());
        const size_t place = bytes_.choice(8);
        return stage_.stepStore(store, place, fate());
      }
      case 'f':
        return stage_.flushStores();
      case 'l':
        return stage_.answerLate();
      case 'x':
        return stage_.expire();
      case 'm':
        return stage_.runTimers();
      case 'a':
        return stage_.deliverAll();
      case 'g':
        return stage_.settle();
      case 'w':
        return stage_.passTime(time());
      case 'k':
        stage_.passTime(time());
        stage_.expire();
        return stage_.runTimers();
      case 'c':
        return stage_.jumpStoreClock(time());
      case 'v':
        return stage_.maintain(static_cast<Stage::Job>(bytes_.choice(3)));
      default:
        return;  // No event.
    }
  }

  Stage& stage_;
  EventBytes& bytes_;
};

void playInput(std::string_view input) {
  EventBytes bytes(input);
  const size_t opening = bytes.choice(2 * configPlans().size());
  Stage stage(opening % configPlans().size(), opening < configPlans().size()
                                                  ? fake::DestroyTime::InsideCall
                                                  : fake::DestroyTime::AfterHook);
  Director director(stage, bytes);
  for (int i = 0; i < MostEvents && !bytes.atEnd(); ++i) {
    director.play(bytes.event());
    stage.tidy();
  }
  tell(" |");
  stage.end();
  tell("\n");
}

}  // namespace
}  // namespace idempotency::fuzz

// libFuzzer calls it first. Most of what an input covers, every input does; the schedule that
// weighs inputs by how rare that is would take more time than the inputs themselves.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  static char option[] = "-entropic=0";
  static std::vector<char*> arguments(*argv, *argv + *argc);
  arguments.insert(arguments.begin() + 1, option);  // What the caller says comes later, and counts.
  arguments.push_back(nullptr);
  *argc += 1;
  *argv = arguments.data();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  idempotency::fuzz::Alarm::install();
  idempotency::fuzz::playInput(idempotency::fuzzText(data, size));
  return 0;
}
