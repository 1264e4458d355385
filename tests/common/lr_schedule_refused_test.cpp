#include <doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "common/step/lr_schedule.hpp"
#include "common/step/policy.hpp"
#include "tests/support/complaint.hpp"

namespace lr_schedule_refused_test {

using namespace zeroproof;
using namespace zeroproof_test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("lr_schedule: progress counts applied steps or their micro-batches") {
  ScheduleConfig s;
  CHECK(progress_of(s, 1, 7) == 1);
  CHECK(progress_of(s, 12, 7) == 12);
  s.first_is_zero = true;
  CHECK(progress_of(s, 1, 7) == 0);
  CHECK(progress_of(s, 12, 7) == 11);
  s.unit = ScheduleUnit::samples;
  CHECK(progress_of(s, 12, 7) == 77);
  s.first_is_zero = false;
  CHECK(progress_of(s, 12, 7) == 84);
  CHECK(progress_of(s, std::int64_t{1} << 43, 1024) == std::int64_t{1} << 53);
  const auto refused = [&](std::int64_t t, std::int64_t micro_batches) {
    try {
      progress_of(s, t, micro_batches);
    } catch (const Error& error) {
      return error.code() == ErrorCode::invalid_argument;
    }
    return false;
  };
  CHECK(refused(0, 1));
  CHECK(refused(-1, 1));
  CHECK(refused(1, 0));
  CHECK(refused((std::int64_t{1} << 43) + 1, 1024));
  CHECK(
      refused(std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::max()));
}

TEST_CASE("lr_schedule: validate rejects lengths out of order and rates out of range") {
  const auto judged = [](const std::function<void(ScheduleConfig&)>& change) {
    ScheduleConfig s;
    s.decay = DecayShape::linear;
    s.warmup = 4;
    s.decay_end = 12;
    s.min_lr = 0.25;
    s.wsd_decay = 8;
    change(s);
    return complaint([&] { validate(s); });
  };
  const auto longest = std::int64_t{1} << 53;
  CHECK(judged([](ScheduleConfig&) {}).empty());
  CHECK(has(judged([](ScheduleConfig& s) { s.warmup = -1; }), "schedule.warmup is -1"));
  CHECK(has(judged([](ScheduleConfig& s) { s.decay_end = -1; }), "schedule.decay_end is -1"));
  CHECK(has(judged([](ScheduleConfig& s) { s.wsd_decay = -1; }), "schedule.wsd_decay is -1"));
  CHECK(has(judged([](ScheduleConfig& s) { s.weight_decay_end = -1; }),
            "schedule.weight_decay_end is -1"));
  CHECK(has(judged([&](ScheduleConfig& s) { s.decay_end = longest + 1; }), "2^53"));
  CHECK(judged([&](ScheduleConfig& s) { s.decay_end = longest; }).empty());
  for (const double bad : {-1e-9, infinity, -infinity, std::nan("")}) {
    CHECK(has(judged([&](ScheduleConfig& s) { s.warmup_init_lr = bad; }),
              "schedule.warmup_init_lr is"));
    CHECK(has(judged([&](ScheduleConfig& s) { s.min_lr = bad; }), "schedule.min_lr is"));
    CHECK(has(judged([&](ScheduleConfig& s) { s.weight_decay_begin = bad; }),
              "schedule.weight_decay_begin is"));
  }
  CHECK(has(judged([](ScheduleConfig& s) { s.decay_end = 4; }), "is not after"));
  CHECK(has(judged([](ScheduleConfig& s) { s.warmup = s.decay_end = 0; }), "is not after"));
  CHECK(judged([](ScheduleConfig& s) { s.decay_end = 5; }).empty());
  CHECK(judged([](ScheduleConfig& s) { s.decay_end = 0, s.decay = DecayShape::constant; }).empty());
  CHECK(judged([](ScheduleConfig& s) { s.decay = DecayShape::wsd; }).empty());
  CHECK(has(judged([](ScheduleConfig& s) { s.decay = DecayShape::wsd, s.wsd_decay = 9; }),
            "is longer than the 8"));
  CHECK(judged([](ScheduleConfig& s) { s.wsd_decay = 9; }).empty());
  CHECK(has(judged([](ScheduleConfig& s) { s.decay = DecayShape::exponential, s.min_lr = 0; }),
            "never reaches 0"));
  CHECK(judged([](ScheduleConfig& s) { s.decay = DecayShape::exponential; }).empty());
  CHECK(judged([](ScheduleConfig& s) { s.min_lr = 0; }).empty());
  CHECK(has(judged([](ScheduleConfig& s) { s.weight_decay_ramp = RampShape::cosine; }),
            "with weight_decay_ramp \"cosine\""));
  CHECK(judged([](ScheduleConfig& s) {
          s.weight_decay_ramp = RampShape::cosine, s.weight_decay_end = 1;
        }).empty());
}

TEST_CASE("lr_schedule: names as in configurations") {
  CHECK(name(DecayShape::constant) == "constant");
  CHECK(name(DecayShape::linear) == "linear");
  CHECK(name(DecayShape::cosine) == "cosine");
  CHECK(name(DecayShape::inverse_square_root) == "inverse_square_root");
  CHECK(name(DecayShape::wsd) == "wsd");
  CHECK(name(DecayShape::exponential) == "exponential");
  CHECK(name(WsdShape::linear) == "linear");
  CHECK(name(WsdShape::cosine) == "cosine");
  CHECK(name(WsdShape::exponential) == "exponential");
  CHECK(name(WsdShape::minus_sqrt) == "minus_sqrt");
  CHECK(name(RampShape::constant) == "constant");
  CHECK(name(RampShape::linear) == "linear");
  CHECK(name(RampShape::cosine) == "cosine");
  CHECK(name(ScheduleUnit::steps) == "steps");
  CHECK(name(ScheduleUnit::samples) == "samples");
}

}  // namespace lr_schedule_refused_test
