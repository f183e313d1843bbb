// What passes through costs no allocation: the filter is on every route of a listener.
#include <chrono>
#include <fmt/format.h>
#include <new>
#include <thread>

#include "gtest/gtest.h"

#include "source/envoy/filter.h"
#include "source/filter/stream/request_reader.h"
#include "test/filter/filter_rig.h"
#include "test/support/allocation_counter.h"

namespace idempotency::test {
namespace {

class AllocationTest : public FilterRig {
protected:
  // Allocations of reading the request's headers.
  size_t allocationsFor(const protocol::Policy& policy, const fake::FieldList& headers) {
    fake::Stream stream(config());
    stream.maps[static_cast<size_t>(envoy::HeaderMap::Request)] = headers;
    stream.map_exists[static_cast<size_t>(envoy::HeaderMap::Request)] = true;
    const std::vector<protocol::NameSource> sources = {protocol::FixedSource{"t"}};
    resetAllocations();
    const filter::RequestReading reading =
        filter::readRequest(envoy::Stream(&stream), policy, sources);
    const bool passes =
        std::holds_alternative<protocol::Pass>(protocol::decideRequest(policy, reading.facts));
    const size_t calls = allocations().calls;
    EXPECT_TRUE(passes);
    return calls;
  }
};

TEST_F(AllocationTest, RouteThatIsOff) {
  EXPECT_EQ(allocationsFor(protocol::Policy(), request()), 0u);
}

TEST_F(AllocationTest, MethodThatIsNotCovered) {
  protocol::Policy policy;
  policy.enforcement = protocol::Enforcement::Required;
  EXPECT_EQ(allocationsFor(policy, request({{":method", "GET"}})), 0u);
}

// --- Memory that runs out while an attempt ends

class NoMemoryTest : public FilterRig {
protected:
  // What happens once the upstream has the request.
  enum class End { Response, Reset };

  // A request of its own runs and ends, while of the worker's allocations `good` succeed and the
  // next `bad` fail. Returns how many did fail.
  size_t endWithout(size_t good, size_t bad, End end) {
    key_ = fmt::format("no-memory-{:08}", good);
    auto stream = send("{}", {{"idempotency-key", fmt::format("\"{}\"", key_)}});
    EXPECT_EQ(stream->continued_request, 1);
    size_t failed = 0;
    {
      const FailingAllocations no_memory(good, bad);
      try {
        if (end == End::Response) {
          responseHeaders(*stream, "200", false);
        }
        if (end == End::Response && stream->alive()) {
          stream->responseBody("paid", true);
        }
      } catch (const std::bad_alloc&) {
        // The fake Envoy itself had none.
      }
      stream.reset();
      failed = FailingAllocations::thrown();
    }
    store().flush();
    return failed;
  }

  std::optional<store::Record> lastRecord() { return record({"acme", "pay", key_}); }

private:
  std::string key_;
};

TEST_F(NoMemoryTest, OneFailureNeverLosesAnAttempt) {
  size_t good = 0;
  for (size_t failed = 1; failed > 0; ++good) {
    SCOPED_TRACE(good);
    failed = endWithout(good, 1, End::Response);
    const auto found = lastRecord();
    ASSERT_TRUE(found.has_value()) << "it ran: its key is not free";
    EXPECT_TRUE(found->state == protocol::RecordState::Completed ||
                (failed > 0 && found->state == protocol::RecordState::Unknown))
        << static_cast<int>(found->state);
  }
  EXPECT_GT(good, 10u) << "the failures came nowhere";
}

TEST_F(NoMemoryTest, WithoutAnyMemoryTheLeaseEnds) {
  constexpr size_t All = 1'000'000;
  useStoreTimeout("1s");
  usePolicy(R"("lease": "1s", "completion_timeout": "1s")");
  size_t left = 0;
  size_t good = 0;
  for (size_t failed = 1; failed > 0; ++good) {
    SCOPED_TRACE(good);
    failed = endWithout(good, All, End::Reset);
    const auto found = lastRecord();
    ASSERT_TRUE(found.has_value()) << "it ran: its key is not free";
    left += found->state == protocol::RecordState::InProgress ? 1 : 0;
  }
  EXPECT_GT(left, 0u) << "there was memory to the end";
  // Longer than any claim goes without a heartbeat.
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  EXPECT_EQ(config().counter("heartbeat.extended"), 0u);
}

// --- Fingerprints of requests that are protected

class FingerprintAllocationTest : public AllocationTest {
protected:
  size_t allocationsFor(const fake::FieldList& changes) {
    fake::Stream stream(config());
    stream.maps[static_cast<size_t>(envoy::HeaderMap::Request)] = request(changes);
    stream.map_exists[static_cast<size_t>(envoy::HeaderMap::Request)] = true;
    const protocol::Policy policy;
    const std::string principal;
    resetAllocations();
    const auto result = filter::fingerprintOf(envoy::Stream(&stream), policy, principal);
    const size_t calls = allocations().calls;
    EXPECT_TRUE(result.has_value());
    return calls;
  }
};

TEST_F(FingerprintAllocationTest, HostAndSortedQueryCostNone) {
  allocationsFor({});  // A thread's first hash makes what later ones use.
  const size_t plain = allocationsFor({});
  EXPECT_EQ(allocationsFor({{":authority", "api.example.com:443"}, {":scheme", "https"}}), plain);
  EXPECT_EQ(allocationsFor({{":path", "/payments?a=1&b=2"}}), plain);
  EXPECT_EQ(allocationsFor({{":path", "/payments?b[]=2&a=1"}}), plain);
}

}  // namespace
}  // namespace idempotency::test
