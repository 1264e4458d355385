// Shapes of warm-up, the defaults of two libraries, and rates from a table (R20).

#include <doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "common/step/lr_schedule.hpp"
#include "common/step/portable_math64.hpp"

namespace lr_warmup_test {

using namespace zeroproof;

namespace {

double at(const ScheduleConfig& s, std::int64_t n) { return scheduled_lr(s, 1.0, s.min_lr, n); }

ScheduleConfig warm(WarmupShape shape, std::int64_t length) {
  ScheduleConfig s;
  s.warmup = length;
  s.warmup_shape = shape;
  return s;
}

std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }

}  // namespace

// One cycle of the library's default form: half a wave up, half a wave down.
TEST_CASE("lr_schedule: cosine warm-up by hand") {
  ScheduleConfig s = warm(WarmupShape::cosine, 4);
  CHECK(at(s, 0) == 0.0);
  CHECK(at(s, 1) == 0.5 * (1.0 - portable_math64::cos_pi(0.25)));
  CHECK(std::fabs(at(s, 1) - 0.14644660940672624) <= 0x1p-53);  // (1 - sqrt(1/2)) / 2
  CHECK(at(s, 2) == 0.5);
  CHECK(at(s, 4) == 1.0);
  CHECK(at(s, 5) == 1.0);
  s.warmup_init_lr = 0.25;
  s.decay = DecayShape::cosine;
  s.decay_end = 12;
  s.min_lr = 0.0625;
  CHECK(at(s, 0) == 0.25);
  CHECK(at(s, 2) == 0.625);
  CHECK(at(s, 8) == 0.53125);
  CHECK(at(s, 12) == 0.0625);
  CHECK(at(warm(WarmupShape::cosine, 1), 1) == 1.0);
}

TEST_CASE("lr_schedule: logarithmic warm-up by hand") {
  ScheduleConfig s = warm(WarmupShape::log, 16);
  CHECK(at(s, 0) == 0.0);
  CHECK(at(s, 1) == 0.0);  // log(1) = 0
  CHECK(at(s, 4) == portable_math64::log(4.0) / portable_math64::log(16.0));
  // A quarter, a half and three quarters, up to two logarithms of 2 ulp and the division.
  CHECK(std::fabs(at(s, 2) - 0.25) <= 4.5 * 0x1p-54);
  CHECK(std::fabs(at(s, 4) - 0.5) <= 4.5 * 0x1p-53);
  CHECK(std::fabs(at(s, 8) - 0.75) <= 4.5 * 0x1p-53);
  CHECK(at(s, 16) == 1.0);
  CHECK(at(s, 17) == 1.0);
  s.warmup_init_lr = 0.5;
  CHECK(at(s, 0) == 0.5);
  CHECK(at(s, 1) == 0.5);
  CHECK(at(s, 16) == 1.0);
  for (const std::int64_t length : {1, 2}) {
    CHECK(at(warm(WarmupShape::log, length), 0) == 0.0);
    CHECK(at(warm(WarmupShape::log, length), length) == 1.0);
  }
  // Never above the end, and never down, also where two logarithms are the same number.
  const std::int64_t longest = std::int64_t{1} << 53;
  const ScheduleConfig endless = warm(WarmupShape::log, longest);
  double before = 0;
  for (std::int64_t n = longest - 100; n <= longest; ++n) {
    CHECK(at(endless, n) <= 1.0);
    CHECK(at(endless, n) >= 1.0 - 0x1p-50);
  }
  for (std::int64_t n = 1; n <= 100'000; ++n) {
    const double now = at(warm(WarmupShape::log, 100'000), n);
    REQUIRE(now >= before);
    before = now;
  }
}

// The formulas of the libraries, as they are written there; the last places differ, as their cosine and their logarithm do.
// Every rate is a sum of at most two terms below `max`, each after fewer than eight roundings or errors of 2^-53.
TEST_CASE("lr_schedule: OneCycleLR and WarmupLR with their defaults") {
  constexpr double pi = 3.14159265358979323846;
  constexpr double max = 0.01, initial = max / 25, final = initial / 1e4;
  ScheduleConfig cycle = warm(WarmupShape::cosine, 5);  // of 20 steps: 0.3 * 20 - 1
  cycle.first_is_zero = true;
  cycle.warmup_init_lr = initial;
  cycle.decay = DecayShape::cosine;
  cycle.decay_end = 19;
  for (int step = 0; step < 20; ++step) {
    const bool up = step <= 5;
    const double begin = up ? initial : max, end = up ? max : final;
    const double part = up ? step / 5.0 : (step - 5) / 14.0;
    const double theirs = end + (begin - end) / 2.0 * (std::cos(pi * part) + 1);
    const double ours = scheduled_lr(cycle, max, final, progress_of(cycle, step + 1, 1));
    CHECK(std::fabs(ours - theirs) <= 16 * 0x1p-53 * max);
  }
  ScheduleConfig warmup = warm(WarmupShape::log, 1000);
  warmup.warmup_init_lr = 1e-5;
  for (int iteration = 0; iteration < 1005; ++iteration) {
    const double gamma = iteration < 1000 ? 1 / std::log(1000.0) * std::log(iteration + 1.0) : 1.0;
    const double theirs = 1e-5 + (max - 1e-5) * gamma;
    CHECK(std::fabs(scheduled_lr(warmup, max, 0, iteration + 1) - theirs) <= 16 * 0x1p-53 * max);
  }
}

// Step s counts from 0, as theirs do.
TEST_CASE("lr_schedule: conventions of transformers, torchtitan, PyTorch, optax and Megatron-LM") {
  constexpr double pi = 3.14159265358979323846;
  constexpr double max = 2e-3, floor = 1e-4;
  constexpr int warmup = 3, last = 12, stable = 5, decay = 4;
  const auto wave = [&](double low, double part) {
    return low + 0.5 * (1 + std::cos(pi * part)) * (max - low);
  };
  const auto matches = [&](const ScheduleConfig& s, const auto& theirs) {
    for (int step = 0; step < last; ++step) {
      CAPTURE(step);
      const double ours = scheduled_lr(s, max, s.min_lr, progress_of(s, step + 1, 1));
      CHECK(std::fabs(ours - theirs(step)) <= 16 * 0x1p-53 * max);
    }
  };
  ScheduleConfig cosine = warm(WarmupShape::linear, warmup);
  cosine.first_is_zero = true;
  cosine.decay = DecayShape::cosine;
  cosine.decay_end = last;
  const auto warmed = [&](double low) {
    return [&, low](int s) {
      return s < warmup ? max * s / warmup
                        : wave(low, static_cast<double>(s - warmup) / (last - warmup));
    };
  };
  matches(cosine, warmed(0));  // get_cosine_schedule_with_warmup
  cosine.min_lr = floor;
  matches(cosine, warmed(floor));  // OptimizerParamScheduler
  cosine.warmup = 0;
  matches(cosine, [&](int s) { return wave(floor, s / 12.0); });  // cosine_decay_schedule
  cosine.decay_end = 11;
  matches(cosine, [&](int s) { return wave(floor, s / 11.0); });  // CosineAnnealingLR
  ScheduleConfig titan = warm(WarmupShape::linear, warmup + 1);
  titan.decay = DecayShape::wsd;
  titan.decay_end = warmup + stable + decay + 1;
  titan.wsd_decay = decay;
  matches(titan, [&](int s) {
    if (s < warmup) return max * (s + 1) / (warmup + 1);
    return s < warmup + stable ? max : max * (1 - static_cast<double>(s - warmup - stable) / decay);
  });
}

TEST_CASE("lr_schedule: a table of rates") {
  ScheduleConfig s;
  s.decay = DecayShape::table;
  s.rates = {0x1.123456789abcdp-10, 0.0, 0.25};
  for (const double max_lr : {1.0, 0.0}) {  // not read, and neither is the floor
    CHECK(bits(scheduled_lr(s, max_lr, 0.5, 1)) == bits(0x1.123456789abcdp-10));
    CHECK(bits(scheduled_lr(s, max_lr, 0.5, 2)) == bits(0.0));
    CHECK(scheduled_lr(s, max_lr, 0.5, 3) == 0.25);
    CHECK(scheduled_lr(s, max_lr, 0.5, 4) == 0.25);
    CHECK(scheduled_lr(s, max_lr, 0.5, 1'000'000) == 0.25);
  }
}

}  // namespace lr_warmup_test
