#include <array>

#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace step_scalars_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

OptimizerHyper dyadic() {
  OptimizerHyper hyper;
  hyper.lr = 0.25;
  hyper.beta1 = 0.5F;
  hyper.beta2 = 0.75F;
  hyper.eps = 0.5;
  hyper.weight_decay = 0.5;
  return hyper;
}

/// True if a change of one hyper-parameter of a valid set is outside R5's ranges.
template <class Change>
bool is_out_of_range(Change change) {
  OptimizerHyper hyper = dyadic();
  change(hyper);
  try {
    reference::step_scalars(hyper, 1, 0, 1);
  } catch (const Error& error) {
    return error.code() == ErrorCode::invalid_argument;
  }
  return false;
}

float fp32(double value) { return static_cast<float>(value); }

}  // namespace

TEST_CASE("step scalars: by hand") {
  const StepScalars s = reference::step_scalars(dyadic(), 1, 3, 4);
  CHECK(s.inv_scale == 0x1p-5F);  // 1 / (8 * 4)
  CHECK(s.beta1 == 0.5F);
  CHECK(s.one_minus_beta1 == 0.5F);
  CHECK(s.beta2 == 0.75F);
  CHECK(s.one_minus_beta2 == 0.25F);
  CHECK(s.sqrt_bias_correction2 == 0.5F);  // sqrt(1 - 3/4)
  CHECK(s.step_size == 0.5F);              // (1/4) / (1 - 1/2)
  CHECK(s.eps == 0.5F);
  CHECK(s.lr_weight_decay == 0.125F);
  CHECK(s.weight_decay == 0.5F);
  CHECK(s.lr == 0.25F);
  CHECK(s.momentum == 0);
  CHECK(s.one_minus_dampening == 1);
  CHECK(s.has_decay == 1);
  CHECK(s.is_first == 1);

  const StepScalars second = reference::step_scalars(dyadic(), 2, -1, 3);
  CHECK(second.inv_scale == fp32(1 / 1.5));
  CHECK(second.is_first == 0);
  CHECK(second.sqrt_bias_correction2 == fp32(std::sqrt(0.4375)));  // 1 - 9/16
  CHECK(second.step_size == fp32(0.25 / 0.75));                    // 1 - 1/4

  OptimizerHyper plain = dyadic();
  plain.bias_correction = false;
  CHECK(reference::step_scalars(plain, 1, 0, 1).sqrt_bias_correction2 == 1.0F);
  CHECK(reference::step_scalars(plain, 1, 0, 1).step_size == 0.25F);

  OptimizerHyper sgd = dyadic();
  sgd.rule = UpdateRule::sgd;
  sgd.momentum = 0.875;
  sgd.dampening = 0.75;
  const StepScalars m = reference::step_scalars(sgd, 1, 0, 1);
  CHECK(m.momentum == 0.875F);
  CHECK(m.one_minus_dampening == 0.25F);
}

TEST_CASE("step scalars: order of the words") {
  OptimizerHyper hyper = dyadic();
  hyper.rule = UpdateRule::sgd;
  hyper.lr = 0.125;
  hyper.eps = 2;
  hyper.weight_decay = 4;
  hyper.momentum = 0.875;
  hyper.dampening = 0.625;
  const auto words = std::bit_cast<std::array<std::uint32_t, num_step_scalar_words>>(
      reference::step_scalars(hyper, 1, -2, 1));
  const std::vector<float> values = {4, 0.5F, 0.5F, 0.75F,  0.25F,  0.5F,  0.25F,
                                     2, 0.5F, 4,    0.125F, 0.875F, 0.375F};
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(words[i] == bits(values[i]));
  CHECK(words[13] == 1);
  CHECK(words[14] == 1);
}

TEST_CASE("step scalars: beta2 below a half") {
  OptimizerHyper hyper;
  hyper.beta2 = 0.25F;
  CHECK(reference::step_scalars(hyper, 1, 0, 1).one_minus_beta2 == 0.75F);
  CHECK(bits(reference::step_scalars(hyper, 1, 0, 1).sqrt_bias_correction2) ==
        bits(fp32(std::sqrt(0.75))));
  CHECK(bits(reference::step_scalars(hyper, 2, 0, 1).sqrt_bias_correction2) ==
        bits(fp32(std::sqrt(0.9375))));
  // fp32(0.3) = 10066330 * 2^-25, so 1 - beta2 = 23488102 * 2^-25 has 25 bits and an even half:
  // 11744051 * 2^-24.
  hyper.beta2 = 0.3F;
  CHECK(reference::step_scalars(hyper, 1, 0, 1).one_minus_beta2 == 11744051 * 0x1p-24F);
  // One unit more, 23488101 * 2^-25, is a tie; the even neighbour is 11744050 * 2^-24.
  hyper.beta2 = 0.3F + 0x1p-25F;
  CHECK(reference::step_scalars(hyper, 1, 0, 1).one_minus_beta2 == 11744050 * 0x1p-24F);
  // Only the last gradient counts, from the first step on: there is nothing to correct.
  for (const float zero : {0.0F, -0.0F}) {
    hyper.beta2 = zero;
    for (const std::int64_t t : {1, 2, 1000}) {
      const StepScalars s = reference::step_scalars(hyper, t, 0, 1);
      CHECK(bits(s.beta2) == bits(zero));
      CHECK(s.one_minus_beta2 == 1.0F);
      CHECK(s.sqrt_bias_correction2 == 1.0F);
    }
  }
}

TEST_CASE("step scalars: the power squares from the right") {
  // One of the rare cases in which the order changes the fp32 result: b^23 = ((b * b^2) * b^4) *
  // b^16. Squaring from the left, multiplying 23 times and std::pow all give 0x1.da4838p-1.
  OptimizerHyper hyper;
  hyper.beta2 = 0x1.d653f4p-1F;
  const double b = hyper.beta2;
  const double b2 = b * b;
  const double b4 = b2 * b2;
  const double b16 = (b4 * b4) * (b4 * b4);
  const float expected = fp32(std::sqrt(1 - ((b * b2) * b4) * b16));
  CHECK(bits(expected) == bits(0x1.da4836p-1F));
  CHECK(bits(reference::step_scalars(hyper, 23, 0, 1).sqrt_bias_correction2) == bits(expected));

  // Exact powers, and a t so large that the power is 0.
  CHECK(reference::step_scalars(dyadic(), 10, 0, 1).step_size == fp32(0.25 / (1 - 0x1p-10)));
  CHECK(reference::step_scalars(dyadic(), std::int64_t{1} << 62, 0, 1).step_size == 0.25F);
}

TEST_CASE("step scalars: decay is off only if the fp64 product is 0") {
  OptimizerHyper hyper = dyadic();
  hyper.weight_decay = 0;
  CHECK(reference::step_scalars(hyper, 1, 0, 1).has_decay == 0);
  hyper = dyadic();
  hyper.lr = 0;
  CHECK(reference::step_scalars(hyper, 1, 0, 1).has_decay == 0);
  hyper = dyadic();
  hyper.weight_decay = 1e-60;  // 0 in fp32, not in fp64
  CHECK(reference::step_scalars(hyper, 1, 0, 1).has_decay == 1);
  CHECK(bits(reference::step_scalars(hyper, 1, 0, 1).lr_weight_decay) == bits(0.0F));
}

TEST_CASE("step scalars: lion and lamb decay by lr * weight_decay, as adamw does") {
  for (const UpdateRule rule : {UpdateRule::lion, UpdateRule::lamb}) {
    OptimizerHyper hyper = dyadic();
    hyper.rule = rule;
    CHECK(reference::step_scalars(hyper, 1, 0, 1).has_decay == 1);
    hyper.lr = 0;
    CHECK(reference::step_scalars(hyper, 1, 0, 1).has_decay == 0);
  }
}

TEST_CASE("step scalars: the other rules decay by weight_decay alone") {
  for (const UpdateRule rule : {UpdateRule::adam, UpdateRule::sgd, UpdateRule::sgd_ema}) {
    OptimizerHyper hyper = dyadic();
    hyper.rule = rule;
    CHECK(reference::step_scalars(hyper, 1, 0, 1).has_decay == 1);
    hyper.lr = 0;  // disables the decay of adamw, not theirs
    CHECK(reference::step_scalars(hyper, 1, 0, 1).has_decay == 1);
    hyper.weight_decay = 1e-60;
    CHECK(reference::step_scalars(hyper, 1, 0, 1).has_decay == 1);
    hyper.weight_decay = -0.0;
    CHECK(reference::step_scalars(hyper, 1, 0, 1).has_decay == 0);
  }
}

TEST_CASE("step scalars: incompatible options are rejected") {
  const auto refused = [](UpdateRule rule, double momentum, double dampening, bool nesterov,
                          bool amsgrad) {
    return is_out_of_range([=](OptimizerHyper& h) {
      h.rule = rule;
      h.momentum = momentum;
      h.dampening = dampening;
      h.nesterov = nesterov;
      h.amsgrad = amsgrad;
      h.maximize = true;  // valid with every rule
    });
  };
  for (const UpdateRule rule :
       {UpdateRule::adamw, UpdateRule::adam, UpdateRule::sgd, UpdateRule::sgd_ema, UpdateRule::lion,
        UpdateRule::lamb, UpdateRule::muon}) {
    const bool is_sgd = rule == UpdateRule::sgd;
    const bool has_momentum = is_sgd || rule == UpdateRule::muon;
    const bool is_adaptive = rule == UpdateRule::adamw || rule == UpdateRule::adam;
    CHECK(refused(rule, 0, 0, false, false) == false);
    CHECK(refused(rule, 0.5, 0, false, false) == !has_momentum);
    CHECK(refused(rule, 0, 0.5, false, false) == !is_sgd);
    CHECK(refused(rule, 0.5, 0.5, false, false) == !is_sgd);
    CHECK(refused(rule, 0.5, 0, true, false) == !has_momentum);
    CHECK(refused(rule, 0, 0, true, false));      // nesterov without momentum
    CHECK(refused(rule, 0.5, 0.5, true, false));  // nesterov with dampening
    CHECK(refused(rule, 0, 0, false, true) == !is_adaptive);
  }
}

TEST_CASE("step scalars: the weight of the gradient under muon is that of its family") {
  OptimizerHyper hyper = dyadic();
  hyper.rule = UpdateRule::muon;
  hyper.momentum = 0.95;
  StepScalars s = reference::step_scalars(hyper, 1, 0, 1);
  CHECK(bits(s.momentum) == bits(0.95F));
  CHECK(bits(s.one_minus_dampening) == bits(fp32(1 - 0.95)));  // not 1 - 0.95F
  CHECK(bits(s.one_minus_dampening) != bits(1 - 0.95F));
  CHECK(s.has_decay == 1);
  hyper.muon.family = MomentumFamily::heavy_ball;
  s = reference::step_scalars(hyper, 1, 0, 1);
  CHECK(s.one_minus_dampening == 1);
  hyper.rule = UpdateRule::sgd;  // of which the family is no setting
  hyper.muon.family = MomentumFamily::ema;
  CHECK(reference::step_scalars(hyper, 1, 0, 1).one_minus_dampening == 1);
  // The decay is decoupled: lr * weight_decay is 0 with lr = 0.
  hyper.rule = UpdateRule::muon;
  hyper.lr = 0;
  CHECK(reference::step_scalars(hyper, 1, 0, 1).has_decay == 0);
}

}  // namespace step_scalars_test
