#include "reference/adam.hpp"

#include "tests/reference/support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// beta1 = 1/2, beta2 = 3/4, eps = 1, and a decay of 1/8: every number below is a sum of few powers of two.
StepScalars dyadic_scalars(float step_size) {
  StepScalars s{};
  s.beta1 = s.one_minus_beta1 = 0.5F;
  s.beta2 = 0.75F;
  s.one_minus_beta2 = 0.25F;
  s.sqrt_bias_correction2 = 0.5F;
  s.step_size = step_size;
  s.eps = 1.0F;
  s.lr_weight_decay = 0.125F;
  s.weight_decay = 0.5F;
  s.has_decay = 1;
  return s;
}

struct State {
  std::vector<float> grad, master, exp_avg, exp_avg_sq, max_exp_avg_sq;

  void update(const StepScalars& scalars, const AdamOptions& options = {}) {
    reference::adamw_update({}, options, scalars, grad, master, exp_avg, exp_avg_sq, max_exp_avg_sq);
  }
  void update_l2(const StepScalars& scalars, const AdamOptions& options = {}) {
    reference::adam_update({}, options, scalars, grad, master, exp_avg, exp_avg_sq, max_exp_avg_sq);
  }
};

/// R6 once more, one element at a time, each intermediate forced through memory.
void update_one(bool l2, const AdamOptions& options, const StepScalars& s, float grad, float& master,
                float& exp_avg, float& exp_avg_sq, float* max_exp_avg_sq) {
  if (options.maximize) grad = std::bit_cast<float>(std::bit_cast<std::uint32_t>(grad) ^ 0x80000000U);
  if (l2 && s.has_decay != 0) {
    volatile float decay = s.weight_decay * master;
    grad = grad + decay;
  }
  volatile float a1 = s.beta1 * exp_avg;
  volatile float a2 = s.one_minus_beta1 * grad;
  exp_avg = a1 + a2;
  volatile float h = grad * grad;
  volatile float b1 = s.beta2 * exp_avg_sq;
  volatile float b2 = s.one_minus_beta2 * h;
  exp_avg_sq = b1 + b2;
  float moment = exp_avg_sq;
  if (options.amsgrad) {
    if (*max_exp_avg_sq >= moment) moment = *max_exp_avg_sq;
    *max_exp_avg_sq = moment;
  }
  volatile float root = std::sqrt(moment);
  volatile float r = root / s.sqrt_bias_correction2;
  volatile float d = r + s.eps;
  volatile float q = exp_avg / d;
  volatile float a = s.step_size * q;
  volatile float w = s.lr_weight_decay * master;
  volatile float with_decay = a + w;
  volatile float u = !l2 && s.has_decay != 0 ? with_decay : a;
  master = master - u;
}

StepScalars usual_scalars() {
  StepScalars s{};
  s.beta1 = 0.9F;
  s.one_minus_beta1 = static_cast<float>(1 - double{0.9F});
  s.beta2 = 0.999F;
  s.one_minus_beta2 = static_cast<float>(1 - double{0.999F});
  s.sqrt_bias_correction2 = 0.0547F;
  s.step_size = 3.69e-3F;
  s.eps = 1e-8F;
  s.lr_weight_decay = 1e-5F;
  s.weight_decay = 0.0123F;
  s.has_decay = 1;
  return s;
}

}  // namespace

TEST_CASE("adamw: three elements, two steps, by hand") {
  State x{{1, -3, 0}, {8, -4, 16}, {0, 0, 0}, {0, 0, 0}, {}};

  //   grad      1        -3        0
  //   exp_avg   g/2 =    1/2       -3/2      0
  //   sq        g^2/4 =  1/4       9/4       0
  //   root      1/2      3/2       0
  //   r         / 1/2 =  1         3         0
  //   d         + 1 =    2         4         1
  //   q         1/4      -3/8      0
  //   a         / 2 =    1/8       -3/16     0
  //   w         m/8 =    1         -1/2      2
  //   u         9/8      -11/16    2
  //   master    55/8     -53/16    14
  x.update(dyadic_scalars(0.5F));
  CHECK(x.exp_avg == std::vector<float>{0.5F, -1.5F, 0});
  CHECK(x.exp_avg_sq == std::vector<float>{0.25F, 2.25F, 0});
  CHECK(x.master == std::vector<float>{6.875F, -3.3125F, 14});

  //   grad      1/2                -3/2                1
  //   exp_avg   1/4 + 1/4 = 1/2    -3/4 - 3/4 = -3/2   1/2
  //   sq        3/16 + 1/16 = 1/4  27/16 + 9/16 = 9/4  1/4
  //   d         2                  4                   2
  //   a         q/4 = 1/16         -3/32               1/16
  //   w         55/64              -53/128             7/4
  //   u         59/64              -65/128             29/16
  //   master    381/64             -359/128            195/16
  x.grad = {0.5F, -1.5F, 1};
  x.update(dyadic_scalars(0.25F));
  CHECK(x.exp_avg == std::vector<float>{0.5F, -1.5F, 0.5F});
  CHECK(x.exp_avg_sq == std::vector<float>{0.25F, 2.25F, 0.25F});
  CHECK(x.master == std::vector<float>{5.953125F, -2.8046875F, 12.1875F});
}

TEST_CASE("adamw: eps stands outside the root and after the bias correction") {
  // sq = 1/4, root = 1/2, r = 1; eps = 1 makes d = 2. Inside the root d would be sqrt(1/4 + 1) / (1/2).
  State x{{1}, {0}, {0}, {0}, {}};
  x.update(dyadic_scalars(8.0F));
  CHECK(x.master[0] == -2.0F);  // -(8 * (1/2) / 2)

  // A gradient that was always 0 divides 0 by eps: nothing moves, and nothing is NaN.
  StepScalars s = dyadic_scalars(8.0F);
  s.eps = 0x1p-126F;
  s.has_decay = 0;
  State zero{{0, -0.0F}, {3, 3}, {0, 0}, {0, 0}, {}};
  zero.update(s);
  CHECK(zero.master == std::vector<float>{3, 3});
}

TEST_CASE("adamw: decay that is off is not evaluated") {
  StepScalars s = dyadic_scalars(0.5F);
  s.lr_weight_decay = 0;
  State x{{1}, {inf32}, {0}, {0}, {}};
  s.has_decay = 0;
  x.update(s);
  CHECK(bits(x.master[0]) == bits(inf32));  // inf - 1/8

  // The flag counts, not the value: a decay that is 0 in fp32 but not in fp64 is evaluated, and 0 * inf is
  // NaN.
  x = {{1}, {inf32}, {0}, {0}, {}};
  s.has_decay = 1;
  x.update(s);
  CHECK(std::isnan(x.master[0]));
}

TEST_CASE("adamw and adam: one rounding per operation, body and tail alike, for any length and all options") {
  for (int flags = 0; flags < 16; ++flags) {
    const bool l2 = (flags & 1) != 0;
    const AdamOptions options{(flags & 2) != 0, (flags & 4) != 0};
    StepScalars s = usual_scalars();
    s.has_decay = (flags & 8) != 0 ? 1 : 0;
    INFO("l2 ", l2, ", amsgrad ", options.amsgrad, ", maximize ", options.maximize, ", decay ", s.has_decay);
    for (const std::int64_t numel : {0, 1, 3, 7, 64, 1023, 1024, 1025, 3000}) {
      State x{random_values(numel, 1), random_values(numel, 2), random_values(numel, 3),
              random_values(numel, 4), random_values(options.amsgrad ? numel : 0, 5)};
      for (float& value : x.exp_avg_sq) value = std::abs(value);
      for (float& value : x.max_exp_avg_sq) value = std::abs(value);
      const std::vector<float> special = {nan32, inf32,  -inf32, 0x1p-149F, -0x1p-130F,
                                          1e20F, -3e38F, 0,      -0.0F};
      for (std::size_t i = 0; i < special.size() && 20 * i < x.grad.size(); ++i) x.grad[20 * i] = special[i];
      State expected = x;
      for (std::size_t i = 0; i < x.grad.size(); ++i) {
        update_one(l2, options, s, x.grad[i], expected.master[i], expected.exp_avg[i], expected.exp_avg_sq[i],
                   options.amsgrad ? &expected.max_exp_avg_sq[i] : nullptr);
      }
      l2 ? x.update_l2(s, options) : x.update(s, options);
      CHECK(bits(x.exp_avg) == bits(expected.exp_avg));
      CHECK(bits(x.exp_avg_sq) == bits(expected.exp_avg_sq));
      CHECK(bits(x.max_exp_avg_sq) == bits(expected.max_exp_avg_sq));
      CHECK(bits(x.master) == bits(expected.master));
    }
  }
}

TEST_CASE("adamw: special gradients") {
  State x{{nan32, inf32, 1e20F, 0x1p-149F}, {1, 1, 1, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}, {}};
  StepScalars s = dyadic_scalars(0.5F);
  s.has_decay = 0;
  x.update(s);
  CHECK(std::isnan(x.master[0]));
  CHECK(std::isnan(x.master[1]));               // inf / inf
  CHECK(bits(x.exp_avg_sq[2]) == bits(inf32));  // the square overflows, and the step is finite / inf = 0
  CHECK(x.master[2] == 1.0F);
  CHECK(bits(x.exp_avg[3]) == bits(0.0F));  // half of the smallest subnormal: tie, to even
  CHECK(bits(x.exp_avg_sq[3]) == bits(0.0F));
}

TEST_CASE("adam: three elements, two steps, by hand") {
  State x{{-3, -1, 0}, {8, -4, 0}, {0, 0, 0}, {0, 0, 0}, {}};

  // The decay enters through the gradient: g = grad + m/2 is 1, -3, 0, the gradient of the example above, with the
  // same a = 1/8, -3/16, 0. Nothing else is taken from master.
  //   master    63/8     -61/16    0
  x.update_l2(dyadic_scalars(0.5F));
  CHECK(x.exp_avg == std::vector<float>{0.5F, -1.5F, 0});
  CHECK(x.exp_avg_sq == std::vector<float>{0.25F, 2.25F, 0});
  CHECK(x.master == std::vector<float>{7.875F, -3.8125F, 0});

  //   m/2       63/16    -61/32    0
  //   grad      -55/16   13/32     1
  //   g         1/2      -3/2      1        the second gradient above: a = 1/16, -3/32, 1/16
  //   master    125/16   -119/32   -1/16
  x.grad = {-55 / 16.0F, 13 / 32.0F, 1};
  x.update_l2(dyadic_scalars(0.25F));
  CHECK(x.exp_avg == std::vector<float>{0.5F, -1.5F, 0.5F});
  CHECK(x.exp_avg_sq == std::vector<float>{0.25F, 2.25F, 0.25F});
  CHECK(x.master == std::vector<float>{7.8125F, -3.71875F, -0.0625F});
}

TEST_CASE("adam: decay that is off is not evaluated") {
  StepScalars s = dyadic_scalars(0.5F);
  s.weight_decay = 0;
  s.has_decay = 0;
  State x{{1}, {inf32}, {0}, {0}, {}};
  x.update_l2(s);
  CHECK(x.exp_avg[0] == 0.5F);
  CHECK(bits(x.master[0]) == bits(inf32));
  s.has_decay = 1;
  x = {{1}, {inf32}, {0}, {0}, {}};
  x.update_l2(s);
  CHECK(std::isnan(x.exp_avg[0]));  // 0 * inf is in the gradient now
}

TEST_CASE("amsgrad: the denominator remembers the largest second moment") {
  StepScalars s = dyadic_scalars(8.0F);
  s.has_decay = 0;
  // One element below its maximum 4, one above its maximum 1/16.
  State x{{1, 1}, {0, 0}, {0, 0}, {0, 0}, {4, 0.0625F}};
  //   exp_avg   1/2            1/2
  //   sq        1/4            1/4
  //   max       4              1/4
  //   r         2 / (1/2) = 4  1
  //   d         5              2
  //   a         8 * (1/10)     8 * (1/4)
  x.update(s, {true, false});
  CHECK(x.exp_avg_sq == std::vector<float>{0.25F, 0.25F});
  CHECK(x.max_exp_avg_sq == std::vector<float>{4, 0.25F});
  CHECK(bits(x.master[0]) == bits(-8 * (0.5F / 5)));
  CHECK(x.master[1] == -2.0F);

  // NaN: a maximum that is NaN is replaced, and so is one that meets a NaN. Of equal zeros the old one stays.
  x = {{1, nan32, 0, inf32}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, {nan32, 4, -0.0F, inf32}};
  x.update(s, {true, false});
  CHECK(bits(x.max_exp_avg_sq) == bits(std::vector<float>{0.25F, nan32, -0.0F, inf32}));
  CHECK(x.master[0] == -2.0F);

  // Without amsgrad no maximum is kept.
  x = {{1}, {0}, {0}, {0}, {}};
  x.update(s);
  CHECK(x.master[0] == -2.0F);
}

TEST_CASE("maximize: the sign bit of the gradient, before the decay") {
  const StepScalars s = dyadic_scalars(0.5F);
  State up{{-1, 3, 0}, {8, -4, 16}, {0, 0, 0}, {0, 0, 0}, {}};
  up.update(s, {false, true});  // the first example, with all signs of the gradient turned
  CHECK(up.exp_avg == std::vector<float>{0.5F, -1.5F, 0});
  CHECK(up.master == std::vector<float>{6.875F, -3.3125F, 14});

  State l2{{3, 1, 0}, {8, -4, 0}, {0, 0, 0}, {0, 0, 0}, {}};
  l2.update_l2(s, {false, true});  // the decay still pulls to 0
  CHECK(l2.exp_avg == std::vector<float>{0.5F, -1.5F, 0});

  // Zeros have signs: with beta1 = 0, exp_avg is 1 * g plus a zero of the sign of exp_avg. 9 elements, so that there
  // is a vector body and a tail.
  StepScalars plain = dyadic_scalars(0.5F);
  plain.beta1 = 0;
  plain.one_minus_beta1 = 1;
  plain.has_decay = 0;
  for (const bool l2_rule : {false, true}) {
    State zero{std::vector<float>(9, 0.0F),
               std::vector<float>(9),
               std::vector<float>(9, -1.0F),
               std::vector<float>(9),
               {}};
    l2_rule ? zero.update_l2(plain, {false, true}) : zero.update(plain, {false, true});
    CHECK(bits(zero.exp_avg) == bits(std::vector<float>(9, -0.0F)));
  }
}

TEST_CASE("adamw and adam: lengths that differ") {
  for (const bool l2 : {false, true}) {
    for (const bool amsgrad : {false, true}) {
      const auto run = [&](int shorter) {
        State x{std::vector<float>(4), std::vector<float>(4), std::vector<float>(4), std::vector<float>(4),
                std::vector<float>(amsgrad ? 4 : 0)};
        if (shorter == 0) x.master.resize(3);
        if (shorter == 1) x.exp_avg.resize(3);
        if (shorter == 2) x.exp_avg_sq.resize(3);
        if (shorter == 3) x.max_exp_avg_sq.resize(amsgrad ? 3 : 4);
        if (shorter == 4) x.max_exp_avg_sq.resize(amsgrad ? 0 : 1);
        l2 ? x.update_l2(dyadic_scalars(0.5F), {amsgrad, false})
           : x.update(dyadic_scalars(0.5F), {amsgrad, false});
      };
      for (int shorter = 0; shorter < 5; ++shorter) ZP_CHECK_INVALID(run(shorter));
      run(5);
    }
  }
}
