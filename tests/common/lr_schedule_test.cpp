#include "common/step/lr_schedule.hpp"

#include <doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "common/step/policy.hpp"
#include "common/step/portable_math64.hpp"

namespace lr_schedule_test {

using namespace zeroproof;

namespace {

/// A decay from 1 to 0.25 in quarters and eighths, so that every value below is exact.
ScheduleConfig falling(DecayShape shape, std::int64_t warmup, std::int64_t end) {
  ScheduleConfig s;
  s.decay = shape;
  s.warmup = warmup;
  s.decay_end = end;
  s.min_lr = 0.25;
  return s;
}

double at(const ScheduleConfig& s, std::int64_t n) { return scheduled_lr(s, 1.0, s.min_lr, n); }

ScheduleConfig wsd(WsdShape shape, std::int64_t warmup, std::int64_t end, std::int64_t length) {
  ScheduleConfig s = falling(DecayShape::wsd, warmup, end);
  s.wsd_shape = shape;
  s.wsd_decay = length;
  return s;
}

ScheduleConfig ramp(RampShape shape, double begin, std::int64_t end) {
  ScheduleConfig s;
  s.weight_decay_ramp = shape;
  s.weight_decay_begin = begin;
  s.weight_decay_end = end;
  return s;
}

std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }

constexpr DecayShape all_decays[] = {DecayShape::constant, DecayShape::linear,
                                     DecayShape::cosine,   DecayShape::inverse_square_root,
                                     DecayShape::wsd,      DecayShape::exponential};

}  // namespace

TEST_CASE("lr_schedule: warm-up reaches the maximum in its last step") {
  for (const DecayShape shape : all_decays) {
    ScheduleConfig s = falling(shape, 4, 12);
    CAPTURE(name(shape));
    CHECK(at(s, 0) == 0.0);
    CHECK(at(s, 1) == 0.25);
    CHECK(at(s, 3) == 0.75);
    CHECK(at(s, 4) == 1.0);  // n = W belongs to the warm-up
    s.warmup_init_lr = 0.5;
    CHECK(at(s, 0) == 0.5);
    CHECK(at(s, 2) == 0.75);
    CHECK(at(s, 4) == 1.0);
  }
  const ScheduleConfig constant = falling(DecayShape::constant, 4, 0);
  CHECK(at(constant, 5) == 1.0);
  CHECK(at(constant, 1'000'000) == 1.0);  // decay_end has no effect
}

TEST_CASE("lr_schedule: linear, cosine and exponential decay by hand") {
  const ScheduleConfig linear = falling(DecayShape::linear, 4, 12);
  CHECK(at(linear, 5) == 0.25 + 0.875 * 0.75);
  CHECK(at(linear, 8) == 0.625);
  CHECK(at(linear, 12) == 0.25);
  CHECK(at(linear, 13) == 0.25);
  const ScheduleConfig cosine = falling(DecayShape::cosine, 0, 4);
  CHECK(at(cosine, 0) == 1.0);
  CHECK(at(cosine, 1) == 0.25 + (0.5 * (1.0 + portable_math64::cos_pi(0.25))) * 0.75);
  CHECK(at(cosine, 2) == 0.625);
  CHECK(at(cosine, 4) == 0.25);
  CHECK(at(cosine, 5) == 0.25);
  CHECK(at(falling(DecayShape::cosine, 4, 12), 8) == 0.625);  // r starts at the end of the warm-up
  const ScheduleConfig exponential = falling(DecayShape::exponential, 0, 2);
  CHECK(at(exponential, 0) == 1.0);
  // 1/2 up to 2 ulp of log (2^-52 each at 1.39, halved by r, times 1/2) and 1.5 ulp of exp (2^-53 each).
  CHECK(std::fabs(at(exponential, 1) - 0.5) <= 0x1p-53 + 1.5 * 0x1p-53);
  CHECK(at(exponential, 1) == portable_math64::exp(0.5 * portable_math64::log(0.25)));
  CHECK(at(exponential, 2) == portable_math64::exp(portable_math64::log(0.25)));
  CHECK(at(exponential, 3) == 0.25);
  CHECK(scheduled_lr(exponential, 4.0, 1.0, 1) ==
        4.0 * portable_math64::exp(0.5 * portable_math64::log(0.25)));
}

TEST_CASE("lr_schedule: inverse_square_root by hand, with its floor and its end") {
  const ScheduleConfig s = falling(DecayShape::inverse_square_root, 4, 100);
  CHECK(at(s, 4) == 1.0);
  CHECK(at(s, 16) == 0.5);
  CHECK(at(s, 64) == 0.25);
  CHECK(at(s, 100) == 0.25);  // 0.2 would be below the floor
  CHECK(at(falling(DecayShape::inverse_square_root, 4, 16), 16) == 0.5);
  CHECK(at(falling(DecayShape::inverse_square_root, 4, 16), 17) == 0.25);
  const ScheduleConfig none =
      falling(DecayShape::inverse_square_root, 0, 100);  // W counts as 1, and so does n = 0
  CHECK(at(none, 0) == 1.0);
  CHECK(at(none, 1) == 1.0);
  CHECK(at(none, 4) == 0.5);
}

TEST_CASE("lr_schedule: wsd is constant, and falls in its last units only") {
  for (const WsdShape shape :
       {WsdShape::linear, WsdShape::cosine, WsdShape::exponential, WsdShape::minus_sqrt}) {
    CAPTURE(name(shape));
    const ScheduleConfig s = wsd(shape, 2, 10, 4);
    CHECK(at(s, 3) == 1.0);
    CHECK(at(s, 6) == 1.0);  // q = 0
    CHECK(at(s, 7) < 1.0);
    CHECK(at(s, 10) == 0.25);  // q = 1: exactly the floor
    CHECK(at(s, 11) == 0.25);
    CHECK(at(wsd(shape, 2, 10, 8), 2) == 1.0);
    CHECK(at(wsd(shape, 2, 10, 0), 10) == 1.0);  // no units left
    CHECK(at(wsd(shape, 2, 10, 0), 11) == 0.25);
    CHECK(at(wsd(shape, 0, 1, 1), 0) == 1.0);
    CHECK(at(wsd(shape, 0, 1, 1), 1) == 0.25);
  }
  CHECK(at(wsd(WsdShape::linear, 2, 10, 4), 7) == 0.25 + 0.75 * 0.75);
  CHECK(at(wsd(WsdShape::minus_sqrt, 2, 10, 4), 7) == 0.625);
  CHECK(at(wsd(WsdShape::cosine, 2, 10, 4), 8) == 0.625);
  const double half = portable_math64::exp(0.5 * portable_math64::log(0.5));
  CHECK(at(wsd(WsdShape::exponential, 2, 10, 4), 8) == 0.25 + (2.0 * half - 1.0) * 0.75);
}

TEST_CASE("lr_schedule: weight decay ramps") {
  for (const RampShape shape : {RampShape::linear, RampShape::cosine}) {
    const ScheduleConfig s = ramp(shape, 0.5, 4);
    CAPTURE(name(shape));
    CHECK(scheduled_weight_decay(s, 1.0, 0) == 0.5);
    CHECK(scheduled_weight_decay(s, 1.0, 2) == 0.75);
    CHECK(scheduled_weight_decay(s, 1.0, 4) == 1.0);
    CHECK(scheduled_weight_decay(s, 1.0, 5) == 1.0);
    CHECK(scheduled_weight_decay(s, 0.25, 2) == 0.375);  // a ramp may fall
  }
  CHECK(scheduled_weight_decay(ramp(RampShape::linear, 0.5, 4), 1.0, 1) == 0.625);
  CHECK(scheduled_weight_decay(ramp(RampShape::cosine, 0.5, 4), 1.0, 1) ==
        0.5 + (0.5 * (1.0 - portable_math64::cos_pi(0.25))) * 0.5);
  CHECK(scheduled_weight_decay(ramp(RampShape::constant, 0.5, 4), 1.0, 1) == 1.0);
  // begin + 1 * (0.1 - begin) does not round to 0.1: from the end on the configured bits are used.
  CHECK(bits(scheduled_weight_decay(ramp(RampShape::linear, 0.7, 3), 0.1, 3)) == bits(0.1));
}

// Bits from the formulas of R20, evaluated once with another language's fp64.
TEST_CASE("lr_schedule: pinned bits where every operation rounds") {
  ScheduleConfig s = falling(DecayShape::linear, 7, 100);
  s.warmup_init_lr = 1e-6;
  s.min_lr = 1e-5;
  const auto lr = [&](std::int64_t n) { return bits(scheduled_lr(s, 3e-4, s.min_lr, n)); };
  CHECK(lr(3) == 0x3F20ED50B225443DU);
  CHECK(lr(5) == 0x3F2C1FD28967D480U);  // divided last
  CHECK(lr(7) == 0x3F33A92A30553261U);
  CHECK(lr(33) == 0x3F2CB1E51F1620C9U);
  s.decay = DecayShape::inverse_square_root;
  CHECK(lr(8) == 0x3F326418354B1BD3U);
  CHECK(lr(33) == 0x3F221C36066E869BU);
  s.decay = DecayShape::wsd;
  s.wsd_decay = 30;
  s.wsd_shape = WsdShape::minus_sqrt;
  CHECK(lr(95) == 0x3F027D83AFAD427FU);
  CHECK(bits(scheduled_weight_decay(ramp(RampShape::linear, 0.01, 100), 0.1, 1)) ==
        0x3F8652BD3C361134U);
  CHECK(bits(scheduled_weight_decay(ramp(RampShape::linear, 0.01, 100), 0.1, 33)) ==
        0x3FA4538EF34D6A17U);
  // Through the project's own functions, and compared with 200-bit arithmetic when they were pinned.
  s.decay = DecayShape::cosine;
  CHECK(lr(33) == 0x3F3039A8A89E6348U);
  s.decay = DecayShape::exponential;
  CHECK(lr(33) == 0x3F1E6355EEEF4060U);
}

// With these numbers the warm-up formula at n = W gives one unit less than the maximum, and it
// applies.
TEST_CASE("lr_schedule: the last warm-up step is a warm-up step to the bit") {
  ScheduleConfig s = falling(DecayShape::linear, 7, 100);
  s.warmup_init_lr = 1.1e-5;
  CHECK(bits(3e-4) == 0x3F33A92A30553261U);
  CHECK(bits(scheduled_lr(s, 3e-4, 0, 7)) == 0x3F33A92A30553260U);
}

TEST_CASE("lr_schedule: rises in the warm-up, never rises after it and stays within its limits") {
  for (const DecayShape shape : all_decays) {
    for (const WsdShape wsd_shape :
         {WsdShape::linear, WsdShape::cosine, WsdShape::exponential, WsdShape::minus_sqrt}) {
      for (const std::int64_t warmup : {0, 1, 10, 333}) {
        ScheduleConfig s = falling(shape, warmup, 1000);
        s.wsd_shape = wsd_shape;
        s.wsd_decay = 600;
        s.min_lr = 3e-5;
        bool ordered = true;
        double last = 0;
        for (std::int64_t n = 0; n <= 1100; ++n) {
          const double f = scheduled_lr(s, 7e-4, s.min_lr, n);
          ordered = ordered && (n == 0 || (n <= warmup ? f > last : n == warmup + 1 || f <= last));
          // min + (max - min) may round past max by a unit.
          ordered = ordered && f <= std::nextafter(7e-4, 1.0) && (n <= warmup || f >= s.min_lr);
          last = f;
        }
        CAPTURE(name(shape));
        CAPTURE(warmup);
        CHECK(ordered);
      }
    }
  }
}

}  // namespace lr_schedule_test
