#include <algorithm>
#include <cstdio>

#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace elementary_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

using Elementary = ElementaryExpFn;

float value(Elementary* function, float x) {
  float y = -7;
  function({}, {&x, 1}, {&y, 1});
  return y;
}

struct Known {
  float x, y;
};

void check_known(Elementary* function, const std::vector<Known>& known) {
  for (const Known& one : known) {
    CAPTURE(one.x);
    CHECK(bits(value(function, one.x)) == bits(one.y));
  }
}

/// The functions are increasing: values between two arguments have results between theirs.
bool grows(Elementary* function, float from, float to) {
  float last = value(function, from);
  for (float x = from; x < to; x = std::nextafter(x, to)) {
    const float next = value(function, x);
    if (!(next >= last)) return false;
    last = next;
  }
  return true;
}

long double sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

TEST_CASE("elementary: digits from tables, and values that are not finite") {
  check_known(reference::elementary_exp, {{0.0F, 1.0F},
                                          {-0.0F, 1.0F},
                                          {1.0F, 2.71828182845904F},
                                          {-1.0F, 0.367879441171442F},
                                          {10.0F, 22026.4657948067F},
                                          {inf32, inf32},
                                          {-inf32, 0.0F},
                                          {nan32, nan32},
                                          {89.0F, inf32},
                                          {3e38F, inf32},
                                          {-104.0F, 0.0F},
                                          {-103.9720F, 0x1p-149F}});
  check_known(reference::elementary_tanh, {{0.0F, 0.0F},
                                           {-0.0F, -0.0F},
                                           {0.5F, 0.462117157260010F},
                                           {-1.0F, -0.761594155955765F},
                                           {10.0F, 1.0F},
                                           {inf32, 1.0F},
                                           {-inf32, -1.0F},
                                           {nan32, nan32},
                                           {-0x1p-149F, -0x1p-149F}});
  check_known(reference::elementary_sigmoid, {{0.0F, 0.5F},
                                              {-0.0F, 0.5F},
                                              {1.0F, 0.731058578630005F},
                                              {-1.0F, 0.268941421369995F},
                                              {20.0F, 1.0F},
                                              {inf32, 1.0F},
                                              {-inf32, 0.0F},
                                              {nan32, nan32},
                                              {-103.9720F, 0x1p-149F},
                                              {-104.0F, 0.0F}});
  check_known(reference::elementary_erf, {{0.0F, 0.0F},
                                          {-0.0F, -0.0F},
                                          {0.5F, 0.520499877813047F},
                                          {-1.0F, -0.842700792949715F},
                                          {2.0F, 0.995322265018953F},
                                          {3.0F, 0.999977909503001F},
                                          {4.0F, 1.0F},
                                          {inf32, 1.0F},
                                          {-inf32, -1.0F},
                                          {nan32, nan32},
                                          {0x1p-149F, 0x1p-149F}});
  check_known(reference::elementary_log, {{1.0F, 0.0F},
                                          {2.0F, 0.693147180559945F},
                                          {10.0F, 2.30258509299405F},
                                          {0.5F, -0.693147180559945F},
                                          {0x1p-149F, -103.278929903432F},
                                          {0.0F, -inf32},
                                          {-0.0F, -inf32},
                                          {-0x1p-149F, nan32},
                                          {-inf32, nan32},
                                          {inf32, inf32},
                                          {nan32, nan32}});
}

TEST_CASE("elementary: known inputs that are not correctly rounded") {
  // 1/2 + x/4 is the middle of two fp32 values, and - x^3/48 is lost in fp64.
  check_known(reference::elementary_sigmoid,
              {{0x1.8p-22F, 0x1.000004p-1F}, {0x1.cp-21F, 0x1.000008p-1F}});
  check_known(reference::elementary_log, {{0x1.827a74p-7F, -0x1.1c2b2p+2F},
                                          {0x1.2f1fd6p+3F, 0x1.1fcbdp+1F},
                                          {0x1.bacb4ap+25F, 0x1.1e0694p+4F},
                                          {0x1.b121a6p+76F, 0x1.a9a3fp+5F},
                                          {0x1.6351d8p+95F, 0x1.08b51p+6F}});
}

TEST_CASE("elementary: monotonic where sequences change and results saturate") {
  CHECK(grows(reference::elementary_exp, -104.1F, -103.0F));
  CHECK(grows(reference::elementary_exp, 88.6F, 89.1F));
  CHECK(grows(reference::elementary_tanh, 8.9F, 9.2F));
  CHECK(grows(reference::elementary_sigmoid, -104.1F, -103.0F));
  CHECK(grows(reference::elementary_sigmoid, 16.0F, 18.0F));
  CHECK(grows(reference::elementary_erf, 0.999F, 1.001F));
  CHECK(grows(reference::elementary_erf, 2.499F, 2.501F));
  CHECK(grows(reference::elementary_erf, 3.8F, 4.1F));
  CHECK(grows(reference::elementary_log, 0.7069F, 0.7073F));
  CHECK(grows(reference::elementary_log, 0.999F, 1.001F));
}

// This machine's mathematical library, in 64 bits, is accurate enough for arguments that are not
// near a midpoint of fp32; tests/verification/mpfr does not use a library and takes every value.
TEST_CASE("elementary: the nearest value for every 4093rd fp32 number") {
  struct Pair {
    const char* name;
    Elementary* function;
    long double (*wide)(long double);
  };
  const Pair pairs[] = {
      {"exp", reference::elementary_exp, [](long double x) { return std::exp(x); }},
      {"tanh", reference::elementary_tanh, [](long double x) { return std::tanh(x); }},
      {"sigmoid", reference::elementary_sigmoid, sigmoid},
      {"erf", reference::elementary_erf, [](long double x) { return std::erf(x); }},
      {"log", reference::elementary_log, [](long double x) { return std::log(x); }}};
  for (const Pair& pair : pairs) {
    CAPTURE(pair.name);
    std::int64_t different = 0;
    for (std::uint64_t i = 0; i <= 0xFFFFFFFFU; i += 4093) {
      const float x = std::bit_cast<float>(static_cast<std::uint32_t>(i));
      const auto nearest = static_cast<float>(pair.wide(x));
      different += bits(value(pair.function, x)) != bits(nearest) ? 1 : 0;
    }
    CHECK(different == 0);
  }
}

TEST_CASE("elementary: arrays, in place, and different lengths are rejected") {
  for (Elementary* function :
       {reference::elementary_exp, reference::elementary_tanh, reference::elementary_sigmoid,
        reference::elementary_erf, reference::elementary_log}) {
    std::vector<float> x = random_values(1027, 5, 6), one_by_one, y(x.size());
    for (const float each : x) one_by_one.push_back(value(function, each));
    function({}, x, y);
    CHECK(bits(y) == bits(one_by_one));
    function({}, x, x);
    CHECK(bits(x) == bits(one_by_one));
    function({}, {}, {});
    ZP_CHECK_INVALID(function({}, x, Span<float>(y).first(1026)));
  }
}

}  // namespace elementary_test
