#include "tests/reference/update/adam_support.hpp"

namespace adam_test {

using namespace zeroproof;
using namespace zeroproof::tests;

TEST_CASE("adamw: three elements, two steps, by hand") {
  AdamState x{{1, -3, 0}, {8, -4, 16}, {0, 0, 0}, {0, 0, 0}, {}};

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

TEST_CASE("adamw: eps is added outside the root and after the bias correction") {
  // sq = 1/4, root = 1/2, r = 1; eps = 1 makes d = 2. Inside the root d would be sqrt(1/4 + 1) /
  // (1/2).
  AdamState x{{1}, {0}, {0}, {0}, {}};
  x.update(dyadic_scalars(8.0F));
  CHECK(x.master[0] == -2.0F);  // -(8 * (1/2) / 2)

  // A gradient that was always 0 divides 0 by eps: master does not change, and nothing is NaN.
  StepScalars s = dyadic_scalars(8.0F);
  s.eps = 0x1p-126F;
  s.has_decay = 0;
  AdamState zero{{0, -0.0F}, {3, 3}, {0, 0}, {0, 0}, {}};
  zero.update(s);
  CHECK(zero.master == std::vector<float>{3, 3});
}

TEST_CASE("adamw: disabled decay is not evaluated") {
  StepScalars s = dyadic_scalars(0.5F);
  s.lr_weight_decay = 0;
  AdamState x{{1}, {inf32}, {0}, {0}, {}};
  s.has_decay = 0;
  x.update(s);
  CHECK(bits(x.master[0]) == bits(inf32));  // inf - 1/8

  // The flag counts, not the value: a decay that is 0 in fp32 but not in fp64 is evaluated, and 0 *
  // inf is NaN.
  x = {{1}, {inf32}, {0}, {0}, {}};
  s.has_decay = 1;
  x.update(s);
  CHECK(std::isnan(x.master[0]));
}

TEST_CASE("adamw: special gradients") {
  AdamState x{{nan32, inf32, 1e20F, 0x1p-149F}, {1, 1, 1, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}, {}};
  StepScalars s = dyadic_scalars(0.5F);
  s.has_decay = 0;
  x.update(s);
  CHECK(std::isnan(x.master[0]));
  CHECK(std::isnan(x.master[1]));  // inf / inf
  CHECK(bits(x.exp_avg_sq[2]) ==
        bits(inf32));  // the square overflows, and the step is finite / inf = 0
  CHECK(x.master[2] == 1.0F);
  CHECK(bits(x.exp_avg[3]) == bits(0.0F));  // half of the smallest subnormal: tie, to even
  CHECK(bits(x.exp_avg_sq[3]) == bits(0.0F));
}

TEST_CASE("adamw_update_bf16: one rounding to nearest even, at the end, by hand") {
  // grad 1: exp_avg 1/2, sq 1/4, d = 2, q = 1/4, so a = 2^-9, half a unit in the last place below
  // 1.
  StepScalars s = dyadic_scalars(0x1p-7F);
  s.has_decay = 0;
  const std::vector<bf16> grad = {{0x3F80}, {0x3F80}, {0x0000}};    // 1, 1, 0
  const std::vector<bf16> before = {{0x3F80}, {0x3F7F}, {0x3F80}};  // 1, 1 - 2^-8, 1
  const std::vector<float> old_moment = {0, 0, 1 + 0x1p-20F};       // more bits than bf16 has
  const auto updated = [&](const StepScalars& scalars, std::vector<float>& exp_avg) {
    std::vector<bf16> master = before;
    std::vector<float> exp_avg_sq(3, 0);
    exp_avg = old_moment;
    reference::adamw_update_bf16({}, {}, scalars, grad, master, exp_avg, exp_avg_sq, {});
    CHECK(exp_avg_sq == std::vector<float>{0.25F, 0.25F, 0});
    return master;
  };
  std::vector<float> exp_avg;
  std::vector<bf16> master = updated(s, exp_avg);
  CHECK(exp_avg == std::vector<float>{0.5F, 0.5F, 0.5F + 0x1p-21F});
  CHECK(master[0].bits == 0x3F80);  // 1 - 2^-9 is a tie, 1 is even: the update is lost
  CHECK(master[1].bits == 0x3F7E);  // 1 - 3 * 2^-9 is a tie, 1 - 2^-7 is even
  // q = exp_avg / eps; a = 2^-8 + 2^-28, and 1 - a is 1 - 2^-8 in fp32
  CHECK(master[2].bits == 0x3F7F);

  // w = 2^-9: rounded after the decay, 1 - 2^-9 would be 1 again, and after the step too.
  s.has_decay = 1;
  s.lr_weight_decay = 0x1p-9F;
  master = updated(s, exp_avg);
  CHECK(master[0].bits == 0x3F7F);  // 1 - (2^-9 + 2^-9) is exact
}

TEST_CASE("adam_update_bf16: the decay of the widened parameter is part of the gradient, by hand") {
  // g = 1/2 + 1/2 * 1 = 1, so a = 2^-6 / 4, one unit in the last place below 1
  const std::vector<bf16> grad = {{0x3F00}};
  std::vector<bf16> master = {{0x3F80}};
  std::vector<float> exp_avg = {0}, exp_avg_sq = {0}, most = {5};
  reference::adam_update_bf16({}, {}, dyadic_scalars(0x1p-6F), grad, master, exp_avg, exp_avg_sq,
                              {});
  CHECK(exp_avg[0] == 0.5F);
  CHECK(exp_avg_sq[0] == 0.25F);
  CHECK(master[0].bits == 0x3F7F);
  for (const auto update : {reference::adamw_update_bf16, reference::adam_update_bf16}) {
    CHECK_THROWS_AS(update({}, {}, dyadic_scalars(1), grad, master, exp_avg, {}, {}), Error);
    CHECK_THROWS_AS(update({}, {}, dyadic_scalars(1), {}, master, exp_avg, exp_avg_sq, {}), Error);
    CHECK_THROWS_AS(update({}, {}, dyadic_scalars(1), grad, master, exp_avg, exp_avg_sq, most),
                    Error);
  }
  CHECK(master[0].bits == 0x3F7F);
}

}  // namespace adam_test
