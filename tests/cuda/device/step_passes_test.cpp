// Whole steps on a device, in phases and in two passes: every bit equals the oracle's. Runs on a
// GPU and, in tests/cuda/device/sim, on the simulated device.

#include <doctest.h>

#include <array>
#include <string>
#include <vector>

#include "cuda/device/runtime/runtime.hpp"
#include "cuda/device/step/piece_numel.hpp"
#include "tests/cuda/device/step_passes_support.hpp"

namespace step_passes_test {

using namespace zeroproof;
using namespace zeroproof::device_test;

namespace {

struct Rule {
  std::string name;
  UpdateRule rule;
  bool amsgrad = false;
  double momentum = 0, dampening = 0;
  bool nesterov = false;
};

const Rule all_rules[] = {
    {"adamw", UpdateRule::adamw},
    {"adamw amsgrad", UpdateRule::adamw, true},
    {"adam", UpdateRule::adam},
    {"adam amsgrad", UpdateRule::adam, true},
    {"sgd", UpdateRule::sgd},
    {"sgd momentum", UpdateRule::sgd, false, 0.9, 0.25},
    {"sgd nesterov", UpdateRule::sgd, false, 0.9, 0, true},
    {"sgd_ema", UpdateRule::sgd_ema},
    {"lion", UpdateRule::lion},
    {"lamb", UpdateRule::lamb},
};

struct Param {
  DType dtype;
  ParamRounding rounding;
};

constexpr Param all_params[] = {{DType::fp32, ParamRounding::nearest},
                                {DType::bf16, ParamRounding::nearest},
                                {DType::fp16, ParamRounding::nearest},
                                {DType::bf16, ParamRounding::stochastic}};

void set_rule(StepCase& c, const Rule& rule) {
  OptimizerHyper& h = c.rules.hyper;
  h.rule = rule.rule, h.amsgrad = rule.amsgrad, h.nesterov = rule.nesterov;
  h.momentum = rule.momentum, h.dampening = rule.dampening;
}

/// Grows every second good step, backs off at the second overflow in a row.
void set_scaler(StepCase& c) {
  LossScalerConfig& scaler = c.rules.scaler;
  scaler.kind = LossScalerKind::dynamic;
  scaler.log2_initial = 4, scaler.log2_max = 6, scaler.log2_min = 3;
  scaler.growth_interval = 2, scaler.hysteresis = 2;
}

/// The last element of a part becomes infinite, or NaN.
void spoil(StepTruth& truth, std::vector<float>& sums, int step) {
  const auto part = static_cast<std::size_t>(step) % truth.num_parts();
  sums[truth.begin(part) + static_cast<std::size_t>(truth.c.parts[part].numel) - 1] =
      step % 2 == 0 ? tests::inf32 : tests::nan32;
}

/// bad: bit n - 1 set: an element of step n is not finite.
void check_steps(const StepCase& c, int num_steps, unsigned bad) {
  for (const Way way : {Way::phases, Way::two_passes, Way::of_ranks}) {
    CAPTURE(static_cast<int>(way));
    StepTruth truth(c);
    truth.casts_all = way == Way::phases;
    StepOnDevice run(truth);
    for (int step = 1; step <= num_steps; ++step) {
      CAPTURE(step);
      std::vector<float> sums =
          sums_for(c, 100 + static_cast<std::uint64_t>(step), truth.state.scaler.log2_scale);
      if ((bad >> (step - 1) & 1U) != 0) spoil(truth, sums, step);
      std::vector<bool> grads(truth.num_parts());
      for (std::size_t i = 0; i < grads.size(); ++i)
        grads[i] = (i + static_cast<std::size_t>(step)) % 3 != 0;
      truth.step(sums, grads);
      run.step(way, sums, grads);
      run.check_found(truth, way);
      run.check_memory(truth, way != Way::phases ? sums : truth.b[grad]);
    }
  }
}

}  // namespace

TEST_CASE(
    "device: twelve steps of every rule, some skipped, with growth and backoff of the scale") {
  if (!usable()) return;
  int turn = 0;
  for (const Rule& rule : all_rules) {
    CAPTURE(rule.name);
    StepCase c;
    set_rule(c, rule);
    set_scaler(c);
    c.schedule = rows_for(1, 12, c.num_groups);
    const Param param = all_params[static_cast<std::size_t>(turn) % 4];
    c.rules.param_dtype = param.dtype, c.rules.rounding = param.rounding;
    c.rules.hyper.maximize = turn % 2 == 1;
    c.rules.hyper.bias_correction = turn % 3 != 2;
    if (turn % 3 == 1) c.rules.hyper.clip_value = 1e-3;
    if (turn % 4 == 3) c.rules.hyper.max_norm.reset();
    check_steps(c, 12, 0b000010011000);
    ++turn;
  }
}

TEST_CASE("device: every rule with every kind of parameters") {
  if (!usable()) return;
  for (const Rule& rule : all_rules) {
    for (const Param& param : all_params) {
      CAPTURE(rule.name);
      CAPTURE(static_cast<int>(param.dtype));
      StepCase c;
      c.parts = {{1500, 0, true, 3}, {31, 1, true, 1}, {2, 0}};
      set_rule(c, rule);
      c.rules.param_dtype = param.dtype, c.rules.rounding = param.rounding,
      c.rules.seed = 0x123456789ABCULL;
      c.schedule = rows_for(1, 2, c.num_groups);
      check_steps(c, 2, 0);
    }
  }
}

TEST_CASE("device: a step that continues with nonfinite values") {
  if (!usable()) return;
  for (const NormForm form : {NormForm::chunk1024, NormForm::exact, NormForm::inf, NormForm::one}) {
    for (const Rule& rule : all_rules) {
      CAPTURE(static_cast<int>(form));
      CAPTURE(rule.name);
      StepCase c;
      c.parts = {{1500, 0, true, 3}, {31, 1, false, 1}, {2, 0}};
      set_rule(c, rule);
      set_scaler(c);
      c.rules.hyper.norm = form;
      c.rules.hyper.clip_value = 0.5;
      c.rules.on_nonfinite = OnNonfinite::propagate;
      c.schedule = rows_for(1, 4, c.num_groups);
      check_steps(c, 4, 0b1110);
    }
  }
}

TEST_CASE("device: buffers at any alignment, so that vectors begin late, or never") {
  if (!usable()) return;
  constexpr std::array<int, 7> all_shifts[] = {{0, 0, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1, 1},
                                               {2, 2, 6, 2, 2, 2, 2}, {0, 0, 0, 0, 0, 0, 2},
                                               {0, 0, 0, 0, 0, 0, 1}, {0, 1, 2, 3, 0, 1, 2}};
  for (const auto& shifts : all_shifts) {
    for (std::int64_t gap = 0; gap < 4; ++gap) {
      for (const Param& param : all_params) {
        CAPTURE(shifts);
        CAPTURE(gap);
        StepCase c;
        c.parts = {{1029, 0, true, gap}, {1, 1}, {3, 0}, {4, 1}, {2, 0}, {9, 1, true, 1}, {33, 0}};
        c.shifts = shifts;
        c.rules.hyper.amsgrad = true;
        c.rules.param_dtype = param.dtype, c.rules.rounding = param.rounding;
        c.schedule = rows_for(1, 2, c.num_groups);
        check_steps(c, 2, 0);
      }
    }
  }
}

TEST_CASE("device: length of pieces on both sides of the limit of a table, and the longest ones") {
  constexpr std::int64_t chunk = 1024;
  constexpr auto length = device::step_piece_numel;
  CHECK(length(0, 8) == chunk);
  CHECK(length(8 * chunk, 8) == chunk);
  CHECK(length(8 * chunk + 1, 8) == 4 * chunk);  // of 8 pieces there are 4 at most
  CHECK(length(16 * chunk + 1, 8) == 8 * chunk);
  CHECK(length(1000 * chunk, 8) == device::StepPiece::most_numel);
  CHECK(length(device::most_short_pieces * chunk, device::most_short_pieces) == chunk);
  CHECK(length(device::most_short_pieces * chunk + 1, device::most_short_pieces) == 4 * chunk);
  if (!usable()) return;
  for (const Rule& rule : {all_rules[0], all_rules[9]}) {
    StepCase c;
    c.parts = {{3, 1}, {device::StepPiece::most_numel + 4099, 0, true, 5}};
    c.piece_numel = device::StepPiece::most_numel;
    set_rule(c, rule);
    c.schedule = rows_for(1, 2, c.num_groups);
    check_steps(c, 2, 0);
  }
}

TEST_CASE("device: tensors that count their own steps, rows of a placement, and drawn parameters") {
  if (!usable()) return;
  for (const Rule& rule : {all_rules[0], all_rules[6], all_rules[7], all_rules[9]}) {
    CAPTURE(rule.name);
    StepCase c;
    c.own_counts = true;
    c.parts.clear();
    for (std::int64_t i = 0; i < 70; ++i)
      c.parts.push_back({1 + i * 7 % 40, i % 2, i % 5 != 0, i % 3});
    c.parts[1] = {2500, 0, true, 1, 1024, 10, 5, 13};      // rows shorter than a vector or two
    c.parts[2] = {2500, 1, true, 0, 2048, 7, 1000, 4001};  // rows that end inside of pieces
    c.parts[3] = {2100, 1, true, 2, 3072, 5'000'000'000, 4000, 4001};
    c.parts[4] = {2100,   0,      true, 0, 1024 * 130, (std::int64_t{1} << 40) + 3,
                  134000, 1 << 20};                                // one wrap
    c.parts[66] = {2100, 0, true, 0, 0, 1'000'000, 70000, 70000};  // no gaps
    c.parts[67] = {2100, 0, true, 3, 1024, 3, 1, 3};
    set_rule(c, rule);
    set_scaler(c);
    c.rules.rounding = ParamRounding::stochastic;
    c.rules.seed = 77;
    c.schedule = rows_for(1, 6, c.num_groups);
    check_steps(c, 6, 0b000100);
  }
}

}  // namespace step_passes_test
