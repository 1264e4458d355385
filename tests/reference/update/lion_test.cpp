#include "reference/update_operations.hpp"
#include "tests/reference/support.hpp"

namespace lion_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// Every factor is a power of two or 3/4.
StepScalars dyadic_scalars(bool has_decay) {
  StepScalars s{};
  s.beta1 = 0.75F;
  s.one_minus_beta1 = 0.25F;
  s.beta2 = 0.5F;
  s.one_minus_beta2 = 0.5F;
  s.lr = 0.5F;
  s.lr_weight_decay = 0.125F;
  s.has_decay = has_decay ? 1 : 0;
  return s;
}

struct State {
  std::vector<float> grad, master, exp_avg;

  void lion(bool maximize, const StepScalars& s) {
    reference::lion_update({}, {maximize}, s, grad, master, exp_avg);
  }
};

}  // namespace

TEST_CASE("lion: three elements, two steps, by hand") {
  State x{{4, -2, 0}, {8, -4, 1}, {0, 0, 0}};
  //   c         1        -1/2      0         1/4 of the gradient
  //   master    15/2     -7/2      1         by 1/2, for any magnitude
  //   exp_avg   2        -1        0         1/2 of the gradient
  x.lion(false, dyadic_scalars(false));
  CHECK(x.master == std::vector<float>{7.5F, -3.5F, 1});
  CHECK(x.exp_avg == std::vector<float>{2, -1, 0});

  //   grad      -5       4         8
  //   c         3/2-5/4  -3/4+1    2         in the first element the past outweighs the gradient
  //   a         1/2      1/2       1/2
  //   w         15/16    -7/16     1/8       decay 1/8 of master
  //   master    97/16    -57/16    3/8
  //   exp_avg   -3/2     3/2       4         whose first sign is not that of c
  x.grad = {-5, 4, 8};
  x.lion(false, dyadic_scalars(true));
  CHECK(x.master == std::vector<float>{6.0625F, -3.5625F, 0.375F});
  CHECK(x.exp_avg == std::vector<float>{-1.5F, 1.5F, 4});

  x = {{-4, 2, 0}, {8, -4, 1}, {0, 0, 0}};
  x.lion(true, dyadic_scalars(false));
  CHECK(x.master == std::vector<float>{7.5F, -3.5F, 1});
  CHECK(x.exp_avg == std::vector<float>{2, -1, 0});
}

TEST_CASE("lion: the sign of a zero is the zero, of a NaN the NaN") {
  // 9 elements: a vector body and a tail.
  const std::vector<float> zeros(9, 0.0F), negative_zeros(9, -0.0F);
  // c = -0, so -0 - -0 = +0; c = +0, so -0 - +0 = -0.
  State x{negative_zeros, negative_zeros, negative_zeros};
  x.lion(false, dyadic_scalars(false));
  CHECK(bits(x.master) == bits(zeros));
  CHECK(bits(x.exp_avg) == bits(negative_zeros));
  x = {negative_zeros, negative_zeros, zeros};
  x.lion(false, dyadic_scalars(false));
  CHECK(bits(x.master) == bits(negative_zeros));
  CHECK(bits(x.exp_avg) == bits(zeros));
  x = {zeros, negative_zeros, negative_zeros};  // ascending, the gradient is -0 again
  x.lion(true, dyadic_scalars(false));
  CHECK(bits(x.master) == bits(zeros));

  x = {{nan32, 1, inf32, -inf32}, {1, 1, 1, 1}, {0, nan32, 0, 0}};
  x.lion(false, dyadic_scalars(false));
  CHECK(bits(x.master) == bits(std::vector<float>{nan32, nan32, 0.5F, 1.5F}));
  CHECK(bits(x.exp_avg) == bits(std::vector<float>{nan32, nan32, inf32, -inf32}));
}

TEST_CASE("lion: disabled decay is not evaluated") {
  StepScalars s = dyadic_scalars(false);
  s.lr_weight_decay = 0;
  for (const std::uint32_t has_decay : {0U, 1U}) {
    s.has_decay = has_decay;
    State x{{1}, {inf32}, {0}};
    x.lion(false, s);
    CHECK(bits(x.master[0]) == bits(has_decay != 0 ? nan32 : inf32));
    CHECK(x.exp_avg[0] == 0.5F);
  }
}

TEST_CASE("lion_update_bf16: one rounding to nearest even, at the end, by hand") {
  StepScalars s = dyadic_scalars(false);
  s.lr = 0x1p-9F;  // half a unit in the last place below 1
  const std::vector<bf16> grad = {{0x3F80}, {0x3F80}, {0xBF80}, {0x0000}};    // 1, 1, -1, 0
  const std::vector<bf16> before = {{0x3F80}, {0x3F7F}, {0x3F80}, {0x3F80}};  // 1, 1 - 2^-8, 1, 1
  std::vector<bf16> master = before;
  std::vector<float> exp_avg = {0, 0, 0, 1 + 0x1p-20F};  // the last has more bits than bf16
  reference::lion_update_bf16({}, {}, s, grad, master, exp_avg);
  CHECK(exp_avg == std::vector<float>{0.5F, 0.5F, -0.5F, 0.5F + 0x1p-21F});
  CHECK(master[0].bits == 0x3F80);  // 1 - 2^-9 is a tie, 1 is even: the update is lost
  CHECK(master[1].bits == 0x3F7E);  // 1 - 3 * 2^-9 is a tie, 1 - 2^-7 is even
  CHECK(master[2].bits == 0x3F80);  // 1 + 2^-9 is nearer to 1 than to 1 + 2^-7

  // w = 2^-9: rounded after the decay, 1 - 2^-9 would be 1 again, and after the step too.
  s.has_decay = 1;
  s.lr_weight_decay = 0x1p-9F;
  master = before;
  exp_avg.assign(4, 0);
  reference::lion_update_bf16({}, {true}, s, grad, master, exp_avg);
  CHECK(exp_avg == std::vector<float>{-0.5F, -0.5F, 0.5F, -0.0F});
  CHECK(master[0].bits == 0x3F80);  // ascending: 1 - (2^-9 - 2^-9)
  CHECK(master[2].bits == 0x3F7F);  // 1 - (2^-9 + 2^-9) is exact
}

TEST_CASE("lion: invalid arguments are rejected") {
  for (const bool short_master : {true, false}) {
    State x{std::vector<float>(4), std::vector<float>(short_master ? 3 : 4),
            std::vector<float>(short_master ? 4 : 5)};
    ZP_CHECK_INVALID(x.lion(false, dyadic_scalars(false)));
    std::vector<bf16> master(x.master.size());
    ZP_CHECK_INVALID(reference::lion_update_bf16({}, {}, dyadic_scalars(false),
                                                 std::vector<bf16>(4), master, x.exp_avg));
  }
}

}  // namespace lion_test
