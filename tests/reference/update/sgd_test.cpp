#include "reference/update_operations.hpp"
#include "tests/reference/support.hpp"

namespace sgd_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// Every factor is a power of two or 3/4.
StepScalars dyadic_scalars(bool is_first) {
  StepScalars s{};
  s.beta1 = 0.75F;
  s.one_minus_beta1 = 0.25F;
  s.lr = 0.5F;
  s.weight_decay = 0.25F;
  s.momentum = 0.5F;
  s.one_minus_dampening = 0.75F;
  s.is_first = is_first ? 1 : 0;
  return s;
}

struct State {
  std::vector<float> grad, master, buffer;

  void sgd(const SgdOptions& options, const StepScalars& s) {
    reference::sgd_update({}, options, s, grad, master, buffer);
  }
  void ema(const SgdEmaOptions& options, const StepScalars& s) {
    reference::sgd_ema_update({}, options, s, grad, master, buffer);
  }
};

}  // namespace

TEST_CASE("sgd: three elements, two steps, by hand") {
  State x{{4, -2, 0}, {8, -4, 1}, {nan32, 99, inf32}};  // the first step does not read the buffer
  //   buffer    4        -2        0         the gradient itself, not dampened
  //   s         2        -1        0
  //   master    6        -3        1
  x.sgd({true, false, false}, dyadic_scalars(true));
  CHECK(bits(x.buffer) == bits(std::vector<float>{4, -2, 0}));
  CHECK(x.master == std::vector<float>{6, -3, 1});

  //   grad      4        0         8
  //   x         2        -1        0         momentum 1/2
  //   y         3        0         6         one_minus_dampening 3/4
  //   buffer    5        -1        6
  //   master    7/2      -5/2      -2
  x.grad = {4, 0, 8};
  x.sgd({true, false, false}, dyadic_scalars(false));
  CHECK(x.buffer == std::vector<float>{5, -1, 6});
  CHECK(x.master == std::vector<float>{3.5F, -2.5F, -2});
}

TEST_CASE("sgd: nesterov, by hand") {
  StepScalars s = dyadic_scalars(true);
  s.one_minus_dampening = 1;
  State x{{4, -2, 0}, {8, -4, 1}, {0, 0, 0}};
  //   buffer    4        -2        0
  //   h         2        -1        0         momentum times the new buffer
  //   e         6        -3        0
  //   master    5        -5/2      1
  x.sgd({true, true, false}, s);
  CHECK(x.buffer == std::vector<float>{4, -2, 0});
  CHECK(x.master == std::vector<float>{5, -2.5F, 1});

  //   grad      4        0         8
  //   buffer    6        -1        8
  //   e         7        -1/2      12
  //   master    3/2      -9/4      -5
  s.is_first = 0;
  x.grad = {4, 0, 8};
  x.sgd({true, true, false}, s);
  CHECK(x.buffer == std::vector<float>{6, -1, 8});
  CHECK(x.master == std::vector<float>{1.5F, -2.25F, -5});
}

TEST_CASE("sgd: no momentum, decay and maximize, by hand") {
  StepScalars s = dyadic_scalars(false);
  State x{{4, -2, 0}, {8, -4, 1}, {}};
  x.sgd({}, s);
  CHECK(x.master == std::vector<float>{6, -3, 1});

  //   w         6/4      -3/4      1/4
  //   g         11/2     -11/4     1/4
  //   master    13/4     -13/8     7/8
  s.has_decay = 1;
  x.sgd({}, s);
  CHECK(x.master == std::vector<float>{3.25F, -1.625F, 0.875F});

  //   g         -4 + 2   2 - 1     1/4       the sign is flipped before the decay is added
  //   master    9        -9/2      7/8
  x.master = {8, -4, 1};
  x.sgd({false, false, true}, s);
  CHECK(x.master == std::vector<float>{9, -4.5F, 0.875F});
}

TEST_CASE("sgd_ema: three elements, two steps, by hand") {
  State x{{4, -2, 0}, {8, -4, 1}, {0, 0, 0}};
  //   exp_avg   1        -1/2      0         1/4 of the gradient, also in the first step
  //   master    15/2     -15/4     1
  x.ema({}, dyadic_scalars(true));
  CHECK(x.buffer == std::vector<float>{1, -0.5F, 0});
  CHECK(x.master == std::vector<float>{7.5F, -3.75F, 1});

  //   grad      -17/8    15/16     31/4
  //   w         15/8     -15/16    1/4       decay 1/4 of master
  //   g         -1/4     0         8
  //   exp_avg   3/4 - 1/16   -3/8  2
  //   s         11/32    -3/16     1
  //   master    229/32   -57/16    0
  StepScalars s = dyadic_scalars(false);
  s.has_decay = 1;
  x.grad = {-2.125F, 0.9375F, 7.75F};
  x.ema({}, s);
  CHECK(x.buffer == std::vector<float>{0.6875F, -0.375F, 2});
  CHECK(x.master == std::vector<float>{7.15625F, -3.5625F, 0});

  x = {{-4, 2, 0}, {8, -4, 1}, {0, 0, 0}};
  x.ema({true}, dyadic_scalars(false));
  CHECK(x.master == std::vector<float>{7.5F, -3.75F, 1});
}

TEST_CASE("sgd: zeros keep their signs, and maximize flips every sign bit") {
  // 9 elements: a vector body and a tail. On the first step the buffer is the gradient, bit for
  // bit.
  const std::vector<float> zeros(9, 0.0F);
  const std::vector<float> negative_zeros(9, -0.0F);
  for (const bool maximize : {false, true}) {
    State x{zeros, zeros, std::vector<float>(9, 5.0F)};
    x.sgd({true, false, maximize}, dyadic_scalars(true));
    CHECK(bits(x.buffer) == bits(maximize ? negative_zeros : zeros));
    x.grad = negative_zeros;
    x.sgd({true, false, maximize}, dyadic_scalars(true));
    CHECK(bits(x.buffer) == bits(maximize ? zeros : negative_zeros));

    State nan{std::vector<float>(9, nan32), zeros, zeros};
    nan.sgd({true, false, maximize}, dyadic_scalars(true));
    for (const float value : nan.buffer) {
      CHECK(std::isnan(value));
      CHECK(std::signbit(value) == (std::signbit(nan32) != maximize));
    }
  }
  // In sgd_ema with beta1 = 0: -0 * ... is -0, and -0 + +0 would be +0.
  StepScalars s = dyadic_scalars(false);
  s.beta1 = 0;
  s.one_minus_beta1 = 1;
  State ema{zeros, zeros, std::vector<float>(9, -1.0F)};
  ema.ema({true}, s);
  CHECK(bits(ema.buffer) == bits(negative_zeros));
}

TEST_CASE("sgd: disabled decay is not evaluated, and infinities propagate") {
  StepScalars s = dyadic_scalars(false);
  s.weight_decay = 0;
  for (const std::uint32_t has_decay : {0U, 1U}) {
    s.has_decay = has_decay;
    State plain{{1}, {inf32}, {}};
    plain.sgd({}, s);
    State ema{{1}, {inf32}, {0}};
    ema.ema({}, s);
    CHECK(bits(plain.master[0]) == bits(has_decay != 0 ? nan32 : inf32));
    CHECK(bits(ema.buffer[0]) == bits(has_decay != 0 ? nan32 : 0.25F));
  }
  State x{{inf32, nan32}, {1, 1}, {1, 1}};
  x.sgd({true, false, false}, dyadic_scalars(false));
  CHECK(bits(x.master) == bits(std::vector<float>{-inf32, nan32}));
}

TEST_CASE("sgd_update_bf16: one rounding to nearest even, at the end, by hand") {
  StepScalars s = dyadic_scalars(false);
  const std::vector<bf16> grad = {{0x3B80}, {0x3B80}, {0x0000}};    // 2^-8, 2^-8, 0
  const std::vector<bf16> before = {{0x3F80}, {0x3F7F}, {0x3F80}};  // 1, 1 - 2^-8, 1
  std::vector<bf16> master = before;
  reference::sgd_update_bf16({}, {}, s, grad, master, {});
  CHECK(master[0].bits == 0x3F80);  // 1 - 2^-9 is a tie, 1 is even: the update is lost
  CHECK(master[1].bits == 0x3F7E);  // 1 - 3 * 2^-9 is a tie, 1 - 2^-7 is even
  CHECK(master[2].bits == 0x3F80);

  // In units of 2^-8: 256 - 8 - 3/8, 255 - 3/8 and 256 - (64 + 2^-14).
  master = before;
  std::vector<float> buffer = {0.125F, 0, 1 + 0x1p-20F};  // the last has more bits than bf16
  reference::sgd_update_bf16({}, {true, false, false}, s, grad, master, buffer);
  CHECK(buffer == std::vector<float>{0x1p-4F + 0x3p-10F, 0x3p-10F, 0.5F + 0x1p-21F});
  CHECK(master[0].bits == 0x3F78);
  CHECK(master[1].bits == 0x3F7F);
  CHECK(master[2].bits == 0x3F40);

  // The gradient with its decay is 1/4 + 2^-11, which bf16 would round to 1/4: 0 would remain.
  s.has_decay = 1;
  s.lr = 4;
  master.assign(1, bf16{0x3F80});
  reference::sgd_update_bf16({}, {}, s, std::vector<bf16>{{0x3A00}}, master, {});
  CHECK(master[0].bits == 0xBB00);  // -2^-9
}

TEST_CASE("sgd: invalid arguments are rejected") {
  const auto run = [](const SgdOptions& options, std::size_t master, std::size_t buffer) {
    State x{std::vector<float>(4), std::vector<float>(master), std::vector<float>(buffer)};
    x.sgd(options, dyadic_scalars(false));
  };
  run({true, true, false}, 4, 4);
  run({false, false, false}, 4, 0);
  ZP_CHECK_INVALID(run({true, false, false}, 3, 4));
  ZP_CHECK_INVALID(run({true, false, false}, 4, 3));
  ZP_CHECK_INVALID(run({true, false, false}, 4, 0));
  ZP_CHECK_INVALID(run({false, false, false}, 3, 0));
  ZP_CHECK_INVALID(run({false, false, false}, 4, 4));
  ZP_CHECK_INVALID(run({false, true, false}, 4, 0));
  const auto run_bf16 = [](const SgdOptions& options, std::size_t master, std::size_t buffer) {
    const std::vector<bf16> grad(4);
    std::vector<bf16> masters(master);
    std::vector<float> buffers(buffer);
    reference::sgd_update_bf16({}, options, dyadic_scalars(false), grad, masters, buffers);
  };
  run_bf16({true, true, false}, 4, 4);
  ZP_CHECK_INVALID(run_bf16({}, 3, 0));
  ZP_CHECK_INVALID(run_bf16({}, 4, 4));
  ZP_CHECK_INVALID(run_bf16({true, false, false}, 4, 5));
  ZP_CHECK_INVALID(run_bf16({false, true, false}, 4, 0));
  for (const bool short_master : {true, false}) {
    State x{std::vector<float>(4), std::vector<float>(short_master ? 3 : 4),
            std::vector<float>(short_master ? 4 : 5)};
    ZP_CHECK_INVALID(x.ema({}, dyadic_scalars(false)));
  }
}

}  // namespace sgd_test
