// adam, amsgrad and maximize, by hand, and errors.

#include "tests/reference/update/adam_support.hpp"

namespace adam_options_test {

using namespace zeroproof;
using namespace zeroproof::tests;

TEST_CASE("adam: three elements, two steps, by hand") {
  AdamState x{{-3, -1, 0}, {8, -4, 0}, {0, 0, 0}, {0, 0, 0}, {}};

  // The decay is part of the gradient: g = grad + m/2 is 1, -3, 0, the gradient of the example in
  // adam_test.cpp, with the same a = 1/8, -3/16, 0. Nothing else is subtracted from master.
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

TEST_CASE("adam: disabled decay is not evaluated") {
  StepScalars s = dyadic_scalars(0.5F);
  s.weight_decay = 0;
  s.has_decay = 0;
  AdamState x{{1}, {inf32}, {0}, {0}, {}};
  x.update_l2(s);
  CHECK(x.exp_avg[0] == 0.5F);
  CHECK(bits(x.master[0]) == bits(inf32));
  s.has_decay = 1;
  x = {{1}, {inf32}, {0}, {0}, {}};
  x.update_l2(s);
  CHECK(std::isnan(x.exp_avg[0]));  // 0 * inf is in the gradient now
}

TEST_CASE("amsgrad: the denominator uses the largest second moment") {
  StepScalars s = dyadic_scalars(8.0F);
  s.has_decay = 0;
  // One element below its maximum 4, one above its maximum 1/16.
  AdamState x{{1, 1}, {0, 0}, {0, 0}, {0, 0}, {4, 0.0625F}};
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

  // NaN: a maximum that is NaN is replaced, and so is one compared with a NaN. Of equal zeros the
  // old one stays.
  x = {{1, nan32, 0, inf32}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, {nan32, 4, -0.0F, inf32}};
  x.update(s, {true, false});
  CHECK(bits(x.max_exp_avg_sq) == bits(std::vector<float>{0.25F, nan32, -0.0F, inf32}));
  CHECK(x.master[0] == -2.0F);

  // Without amsgrad there is no maximum.
  x = {{1}, {0}, {0}, {0}, {}};
  x.update(s);
  CHECK(x.master[0] == -2.0F);
}

TEST_CASE("maximize: the sign bit of the gradient, before the decay") {
  const StepScalars s = dyadic_scalars(0.5F);
  AdamState up{{-1, 3, 0}, {8, -4, 16}, {0, 0, 0}, {0, 0, 0}, {}};
  up.update(s, {false, true});  // the first example, with all signs of the gradient flipped
  CHECK(up.exp_avg == std::vector<float>{0.5F, -1.5F, 0});
  CHECK(up.master == std::vector<float>{6.875F, -3.3125F, 14});

  AdamState l2{{3, 1, 0}, {8, -4, 0}, {0, 0, 0}, {0, 0, 0}, {}};
  l2.update_l2(s, {false, true});  // the decay still pulls to 0
  CHECK(l2.exp_avg == std::vector<float>{0.5F, -1.5F, 0});

  // Zeros have signs: with beta1 = 0, exp_avg is 1 * g plus a zero of the sign of exp_avg. 9
  // elements, so that there is a vector body and a tail.
  StepScalars plain = dyadic_scalars(0.5F);
  plain.beta1 = 0;
  plain.one_minus_beta1 = 1;
  plain.has_decay = 0;
  for (const bool l2_rule : {false, true}) {
    AdamState zero{std::vector<float>(9, 0.0F),
                   std::vector<float>(9),
                   std::vector<float>(9, -1.0F),
                   std::vector<float>(9),
                   {}};
    l2_rule ? zero.update_l2(plain, {false, true}) : zero.update(plain, {false, true});
    CHECK(bits(zero.exp_avg) == bits(std::vector<float>(9, -0.0F)));
  }
}

}  // namespace adam_options_test
