// Muon by hand: momentum, step size and update of a matrix (R28).

#include <array>
#include <cmath>

#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace muon_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

struct Momentum {
  std::vector<float> exp_avg, direction;
};

Momentum momentum_of(const StepScalars& scalars, const MuonMomentumOptions& options,
                     const std::vector<float>& grad, std::vector<float> exp_avg) {
  std::vector<float> direction(grad.size(), nan32);
  reference::muon_momentum({}, options, scalars, grad, exp_avg, direction);
  return {exp_avg, direction};
}

StepScalars scalars_of(float momentum, float one_minus_dampening) {
  StepScalars s{};
  s.momentum = momentum;
  s.one_minus_dampening = one_minus_dampening;
  return s;
}

float updated(float master, float step_size, float orthogonal, float lr_weight_decay,
              bool has_decay) {
  StepScalars s{};
  s.lr_weight_decay = lr_weight_decay;
  s.has_decay = has_decay ? 1 : 0;
  std::vector<float> values = {master};
  reference::muon_update({}, s, step_size, std::vector<float>{orthogonal}, values);
  return values[0];
}

float step_size(MuonScale scale, std::int64_t rows, std::int64_t columns, float lr = 1,
                double scale_factor = 1) {
  MuonSettings settings;
  settings.scale = scale;
  settings.scale_factor = scale_factor;
  StepScalars s{};
  s.lr = lr;
  return reference::muon_step_size(settings, s, rows, columns);
}

}  // namespace

TEST_CASE("muon: momentum by hand, of both families, with and without nesterov") {
  const std::vector<float> grad = {4, -2}, exp_avg = {2, 6};
  // ema: x = (1, 3), y = (1, -1/2), exp_avg = (2, 5/2); nesterov: h = (1, 5/4), e = (2, 3/4)
  StepScalars s = scalars_of(0.5F, 0.25F);
  Momentum m = momentum_of(s, {true, false}, grad, exp_avg);
  CHECK(m.exp_avg == std::vector<float>{2, 2.5F});
  CHECK(m.direction == std::vector<float>{2, 0.75F});
  m = momentum_of(s, {false, false}, grad, exp_avg);
  CHECK(m.exp_avg == std::vector<float>{2, 2.5F});
  CHECK(m.direction == m.exp_avg);
  // heavy ball: y = grad, exp_avg = (5, 1); nesterov: h = (5/2, 1/2), e = (13/2, -3/2)
  s.one_minus_dampening = 1;
  m = momentum_of(s, {true, false}, grad, exp_avg);
  CHECK(m.exp_avg == std::vector<float>{5, 1});
  CHECK(m.direction == std::vector<float>{6.5F, -1.5F});
  // maximize: y = (-4, 2), exp_avg = (-3, 5); h = (-3/2, 5/2), e = (-11/2, 9/2)
  m = momentum_of(s, {true, true}, grad, exp_avg);
  CHECK(m.exp_avg == std::vector<float>{-3, 5});
  CHECK(m.direction == std::vector<float>{-5.5F, 4.5F});
}

TEST_CASE("muon: the first step is as any other") {
  StepScalars s = scalars_of(0.5F, 0.25F);
  s.is_first = 1;
  const Momentum m = momentum_of(s, {false, false}, {4}, {0});
  CHECK(m.direction == std::vector<float>{1});
}

TEST_CASE("muon: every product and sum of the momentum is rounded") {
  const StepScalars s = scalars_of(0.95F, static_cast<float>(1 - 0.95));
  const std::vector<float> grad = gradient_with_specials(1500), start = random_values(1500, 2);
  for (const bool nesterov : {false, true}) {
    for (const bool maximize : {false, true}) {
      const Momentum m = momentum_of(s, {nesterov, maximize}, grad, start);
      for (std::size_t i = 0; i < grad.size(); ++i) {
        const float g = maximize ? -grad[i] : grad[i];
        const float x = s.momentum * start[i];
        const float y = s.one_minus_dampening * g;
        const float exp_avg = x + y;
        const float h = s.momentum * exp_avg;
        const float e = nesterov ? y + h : exp_avg;
        CHECK(bits(m.exp_avg[i]) == bits(exp_avg));
        CHECK(bits(m.direction[i]) == bits(e));
      }
      // In the memory of the gradient.
      std::vector<float> in_place = grad, exp_avg = start;
      reference::muon_momentum({}, {nesterov, maximize}, s, in_place, exp_avg, in_place);
      CHECK(bits(in_place) == bits(m.direction));
      CHECK(bits(exp_avg) == bits(m.exp_avg));
    }
  }
}

TEST_CASE("muon: products with a factor of 0 are evaluated") {
  const Momentum m = momentum_of(scalars_of(0, 1), {false, false}, {3, -0.0F}, {inf32, -0.0F});
  CHECK(bits(m.exp_avg) == bits({nan32, -0.0F}));  // 0 * infinity; -0 + -0
  CHECK(bits(momentum_of(scalars_of(0, 1), {true, true}, {0.0F}, {-0.0F}).direction[0]) ==
        bits(-0.0F));  // the sign of +0 is flipped
}

TEST_CASE("muon: step size by hand") {
  using enum MuonScale;
  for (const auto& [rows, columns] : {std::array{8, 2}, std::array{2, 8}, std::array{9, 9}}) {
    CHECK(step_size(none, rows, columns) == 1);
    CHECK(step_size(none, rows, columns, 0.25F, 0.5) == 0.125F);
  }
  CHECK(step_size(original, 8, 2) == 2);
  CHECK(step_size(original, 2, 8) == 1);
  CHECK(step_size(original, 5, 5) == 1);
  CHECK(step_size(original, 9, 1, 0.25F, 2) == 1.5F);
  CHECK(step_size(spectral, 9, 4) == 3);
  CHECK(step_size(spectral, 4, 9) == 3);
  CHECK(step_size(unit_rms_norm, 8, 2) == 2);
  CHECK(step_size(unit_rms_norm, 2, 8) == 0.5F);
  CHECK(step_size(match_rms_adamw, 25, 4) == 1);  // 0.2 * 5 is 1 in fp64
  CHECK(step_size(match_rms_adamw, 4, 25, 0.5F) == 0.5F);
}

TEST_CASE("muon: the step size is rounded to fp32 once") {
  // lr is the fp32 scalar, widened; all other operations are in fp64.
  const float lr = 0.02F;
  CHECK(step_size(MuonScale::original, 300, 7, lr, 0.3) ==
        static_cast<float>(double{lr} * (0.3 * std::sqrt(300.0 / 7.0))));
  CHECK(step_size(MuonScale::match_rms_adamw, 300, 7, lr, 0.3) ==
        static_cast<float>(double{lr} * (0.3 * (0.2 * std::sqrt(300.0)))));
  // 3 * (1/3) in fp64 is 1; a step size computed in fp32, or a rounded scale, would not be lr.
  CHECK(step_size(MuonScale::unit_rms_norm, 1, 9, lr, 3) == lr);
  CHECK(bits(step_size(MuonScale::unit_rms_norm, 1, 49, 0.1F, 7)) == bits(0.1F));
  CHECK(step_size(MuonScale::spectral, 4, 1, 3e38F) == inf32);
}

TEST_CASE("muon: a step size without a factor or a matrix is rejected") {
  for (const double factor : {0.0, -1.0, inf64, nan64})
    ZP_CHECK_INVALID(step_size(MuonScale::none, 1, 1, 1, factor));
  ZP_CHECK_INVALID(step_size(MuonScale::none, 0, 1));
  ZP_CHECK_INVALID(step_size(MuonScale::none, 1, 0));
  ZP_CHECK_INVALID(step_size(MuonScale::none, -2, 3));
  ZP_CHECK_INVALID(step_size(static_cast<MuonScale>(5), 1, 1));
}

TEST_CASE("muon: update by hand, with and without decay") {
  CHECK(updated(8, 0.25F, 2, 0.125F, true) == 6.5F);  // a = 1/2, w = 1
  CHECK(updated(8, 0.25F, 2, 0.125F, false) == 7.5F);
  CHECK(updated(-8, 0.25F, -2, 0.125F, true) == -6.5F);
  // a and w are added first: 1 - 2^-24, where 1 - 2^-25 would be 1.
  CHECK(updated(1, 0x1p-25F, 1, 0x1p-25F, true) == 1 - 0x1p-24F);
  CHECK(updated(1, 0x1p-25F, 1, 0x1p-25F, false) == 1);
  // The decay term alone is omitted.
  CHECK(bits(updated(inf32, 0.25F, 2, 0, true)) == bits(nan32));
  CHECK(bits(updated(inf32, 0.25F, 2, 0, false)) == bits(inf32));
  CHECK(bits(updated(1, 0, inf32, 0, false)) == bits(nan32));
  CHECK(bits(updated(-0.0F, 1, 0, 0, false)) == bits(-0.0F));  // -0 - +0
}

TEST_CASE("muon: every operation of the update is rounded") {
  StepScalars s{};
  s.lr_weight_decay = 1e-3F;
  const std::vector<float> orthogonal = gradient_with_specials(1500);
  for (const std::uint32_t has_decay : {0U, 1U}) {
    s.has_decay = has_decay;
    const std::vector<float> start = random_values(1500, 4);
    std::vector<float> master = start;
    reference::muon_update({}, s, 0.0231F, orthogonal, master);
    for (std::size_t i = 0; i < master.size(); ++i) {
      const float a = 0.0231F * orthogonal[i];
      const float w = s.lr_weight_decay * start[i];
      const float u = a + w;
      CHECK(bits(master[i]) == bits(has_decay != 0 ? start[i] - u : start[i] - a));
    }
  }
}

TEST_CASE("muon: views of different lengths are rejected, empty ones are not") {
  std::vector<float> two(2), three(3), none;
  const StepScalars s{};
  ZP_CHECK_INVALID(reference::muon_momentum({}, {}, s, two, three, two));
  ZP_CHECK_INVALID(reference::muon_momentum({}, {}, s, two, two, three));
  ZP_CHECK_INVALID(reference::muon_update({}, s, 1, two, three));
  reference::muon_momentum({}, {}, s, none, none, none);
  reference::muon_update({}, s, 1, none, none);
  CHECK(none.empty());
}

}  // namespace muon_test
