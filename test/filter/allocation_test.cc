// What passes through costs no allocation: the filter is on every route of a listener.
#include "gtest/gtest.h"

#include "source/envoy/filter.h"
#include "source/filter/request_reader.h"
#include "test/filter/filter_rig.h"
#include "test/support/allocation_counter.h"

namespace idempotency::test {
namespace {

class AllocationTest : public FilterRig {
protected:
  // Allocations of reading the request's headers.
  size_t allocationsFor(const Policy& policy, const fake::FieldList& headers) {
    fake::Stream stream(config());
    stream.maps[static_cast<size_t>(envoy::HeaderMap::Request)] = headers;
    stream.map_exists[static_cast<size_t>(envoy::HeaderMap::Request)] = true;
    const std::vector<NameSource> sources = {FixedSource{"t"}};
    resetAllocations();
    const RequestReading reading = readRequest(envoy::Stream(&stream), policy, sources);
    const bool passes = std::holds_alternative<Pass>(decideRequest(policy, reading.facts));
    const size_t calls = allocations().calls;
    EXPECT_TRUE(passes);
    return calls;
  }
};

TEST_F(AllocationTest, RouteThatIsOff) {
  EXPECT_EQ(allocationsFor(Policy(), request()), 0u);
}

TEST_F(AllocationTest, MethodThatIsNotCovered) {
  Policy policy;
  policy.enforcement = Enforcement::Required;
  EXPECT_EQ(allocationsFor(policy, request({{":method", "GET"}})), 0u);
}

}  // namespace
}  // namespace idempotency::test
