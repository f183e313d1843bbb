#include "source/message/trace_context.h"

#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace idempotency::message {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::Pair;

using Fields = std::vector<protocol::FieldView>;

constexpr std::string_view Trace = "0af7651916cd43dd8448eb211c80319c";
constexpr std::string_view Span = "b7ad6b7169203331";
constexpr std::string_view Client = "00f067aa0ba902b7";
const protocol::FieldView Sampled = {"x-request-id", "c3a1f6de-7f3b-9d2c-8a53-0f3c1b2a4d5e"};
const protocol::FieldView NotSampled = {"x-request-id", "c3a1f6de-7f3b-4d2c-8a53-0f3c1b2a4d5e"};

std::string parent(std::string_view trace, std::string_view span, std::string_view flags) {
  return std::string("00-").append(trace).append("-").append(span).append("-").append(flags);
}

using Texts = std::vector<std::pair<std::string, std::string>>;

Texts textsOf(const Fields& fields) {
  return {fields.begin(), fields.end()};
}

Texts written(std::string_view trace, std::string_view span, const Fields& headers) {
  const TraceContext context = traceContext(trace, span, headers);
  return textsOf(withContext(headers, context));
}

TEST(TraceContextTest, SpanOfANewTraceIsTheParent) {
  EXPECT_THAT(written(Trace, Span, {{"a", "1"}, Sampled}),
              ElementsAre(Pair("a", "1"), Pair(Sampled.first, Sampled.second),
                          Pair("traceparent", parent(Trace, Span, "01"))));
}

TEST(TraceContextTest, EnvoysRequestIdSaysWhetherItIsSampled) {
  for (const auto& [digit, flags] :
       {std::pair('9', "01"), std::pair('a', "01"), std::pair('b', "01"), std::pair('4', "00")}) {
    std::string id(Sampled.second);
    id[14] = digit;
    EXPECT_THAT(
        written(Trace, Span, {{"x-request-id", id}}),
        ElementsAre(Pair("x-request-id", id), Pair("traceparent", parent(Trace, Span, flags))));
  }
}

TEST(TraceContextTest, ContextOfTheClientsTraceIsReplacedAndKeepsItsState) {
  const std::string sent = parent(Trace, Client, "01");
  EXPECT_THAT(written(Trace, Span, {{"traceparent", sent}, {"tracestate", "a=1"}, Sampled}),
              ElementsAre(Pair("tracestate", "a=1"), Pair(Sampled.first, Sampled.second),
                          Pair("traceparent", parent(Trace, Span, "01"))));
}

TEST(TraceContextTest, UnsampledTraceOfTheClientStaysUnsampled) {
  for (const std::string_view flags : {"00", "02", "fe"}) {
    const std::string sent = parent(Trace, Client, flags);
    EXPECT_THAT(written(Trace, Span, {{"traceparent", sent}, Sampled}),
                ElementsAre(Pair(Sampled.first, Sampled.second),
                            Pair("traceparent", parent(Trace, Span, "00"))));
  }
}

TEST(TraceContextTest, SampledTraceThatEnvoyDoesNotSampleIsUnsampled) {
  const std::string sent = parent(Trace, Client, "01");
  EXPECT_THAT(written(Trace, Span, {{"traceparent", sent}, NotSampled}),
              ElementsAre(Pair(NotSampled.first, NotSampled.second),
                          Pair("traceparent", parent(Trace, Span, "00"))));
}

TEST(TraceContextTest, ContextOfAnotherTraceIsReplacedWithItsState) {
  const std::string sent = parent("4bf92f3577b34da6a3ce929d0e0e4736", Client, "00");
  EXPECT_THAT(written(Trace, Span, {{"traceparent", sent}, {"tracestate", "a=1"}, Sampled}),
              ElementsAre(Pair(Sampled.first, Sampled.second),
                          Pair("traceparent", parent(Trace, Span, "01"))));
}

TEST(TraceContextTest, ZipkinsOwnTraceIsWrittenAsB3) {
  EXPECT_THAT(written(Span, "", {Sampled}),
              ElementsAre(Pair(Sampled.first, Sampled.second), Pair("x-b3-traceid", Span),
                          Pair("x-b3-spanid", Span), Pair("x-b3-sampled", "1")));
  EXPECT_THAT(written(Trace, "", {NotSampled}),
              ElementsAre(Pair(NotSampled.first, NotSampled.second), Pair("x-b3-traceid", Trace),
                          Pair("x-b3-spanid", Trace.substr(16)), Pair("x-b3-sampled", "0")));
}

TEST(TraceContextTest, ClientDecidesWhetherZipkinsOwnTraceIsSampled) {
  const auto sampled = [](const protocol::FieldView& sent, const protocol::FieldView& id) {
    return written(Span, "", {sent, id}).back().second;
  };
  EXPECT_EQ(sampled({"x-b3-sampled", "0"}, Sampled), "0");
  EXPECT_EQ(sampled({"x-b3-sampled", "1"}, NotSampled), "1");
  EXPECT_EQ(sampled({"x-b3-sampled", "true"}, NotSampled), "1");
  EXPECT_EQ(sampled({"b3", "0"}, Sampled), "0");
  EXPECT_EQ(sampled({"b3", "d"}, NotSampled), "1");
  // And there is only one format of it.
  EXPECT_EQ(written(Span, "", {{"b3", "0"}, Sampled}).size(), 4);
}

TEST(TraceContextTest, ClientsContextStandsWhereTheSpanIsUnknown) {
  const std::string single = std::string(Trace).append("-").append(Client).append("-1");
  const std::string w3c = parent(Trace, Client, "01");
  const std::vector<Fields> sent = {
      {{"x-b3-traceid", Trace}, {"x-b3-spanid", Client}, Sampled},
      {{"b3", single}, Sampled},
      {{"traceparent", w3c}, Sampled},
  };
  for (const Fields& headers : sent) {
    EXPECT_THAT(written(Trace, "", headers), ElementsAreArray(textsOf(headers)));
  }
}

TEST(TraceContextTest, IdsOfAnotherFormChangeNothing) {
  const Fields headers = {{"traceparent", "client's"}, Sampled};
  for (const auto& [trace, span] : {std::pair<std::string_view, std::string_view>{"", ""},
                                    {"1-5759e988-bd862e3fe1be46a994272793", ""},
                                    {"0af7651916cd43dd8448eb211c80319", "b7ad6b7169203331"},
                                    {"0AF7651916CD43DD8448EB211C80319C", "b7ad6b7169203331"},
                                    {"0af7651916cd43dd8448eb211c80319c", "b7ad6b716920333"},
                                    {"0af7651916cd43dd8448eb211c80319c", "b7ad6b716920333\n"},
                                    {"", "b7ad6b7169203331"}}) {
    EXPECT_THAT(written(trace, span, headers), ElementsAreArray(textsOf(headers)))
        << trace << " " << span;
  }
}

TEST(TraceContextTest, WithoutEnvoysRequestIdNothingIsKnownOfTheSample) {
  const Fields without[] = {{{"a", "1"}}, {{"x-request-id", "mine"}}};
  for (const Fields& headers : without) {
    EXPECT_THAT(written(Trace, Span, headers), ElementsAreArray(textsOf(headers)));
    EXPECT_THAT(written(Span, "", headers), ElementsAreArray(textsOf(headers)));
  }
}

}  // namespace
}  // namespace idempotency::message
