// The operations of LAMB on a device against plain loops, bit for bit: odd sizes, every alignment,
// special values. tests/cuda/device/sim runs the same file on the simulated device.

#include <doctest.h>

#include <array>
#include <limits>
#include <vector>

#include "cuda/device/kernels/gradients/norm_pieces.hpp"
#include "cuda/device/operations.hpp"
#include "tests/cuda/device_place.hpp"
#include "tests/cuda/lamb_loops.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"
#include "tests/oracle/oracle_limbs.hpp"
#include "verification/ops/on_device.hpp"

namespace device_lamb_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::device_test;
using verification::on_device;
namespace device = zeroproof::cuda::device;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float no_number = std::numeric_limits<float>::quiet_NaN();

/// No two equal, so that none can replace another.
StepScalars scalars(std::uint32_t has_decay) {
  StepScalars s{};
  s.inv_scale = 0.25F;
  s.beta1 = 0.9F;
  s.one_minus_beta1 = 0.1F;
  s.beta2 = 0.999F;
  s.one_minus_beta2 = 0.001F;
  s.sqrt_bias_correction2 = 0.0316F;
  s.step_size = 1.1e-3F;
  s.eps = 1e-8F;
  s.lr_weight_decay = 1e-5F;
  s.weight_decay = 0.02F;
  s.lr = 3e-3F;
  s.momentum = 0.85F;
  s.one_minus_dampening = 0.7F;
  s.has_decay = has_decay;
  return s;
}

struct Buffers {
  Buffers(std::int64_t numel, const int* offset, bool finite = false)
      : grad(numel, offset[0]),
        master(numel, offset[1]),
        exp_avg(numel, offset[2]),
        exp_avg_sq(numel, offset[3]) {
    const auto put = finite ? fill_finite : static_cast<decltype(&fill_finite)>(fill);
    put(grad.span(), 1);
    put(master.span(), 2);
    put(exp_avg.span(), 3);
    put(exp_avg_sq.span(), 4);
  }
  LambOperands operands() {
    return {grad.span(), master.span(), exp_avg.span(), exp_avg_sq.span()};
  }
  void check_equal(const Buffers& other) const {
    grad.check([&](std::int64_t i) { return other.grad[i]; });
    master.check([&](std::int64_t i) { return other.master[i]; });
    exp_avg.check([&](std::int64_t i) { return other.exp_avg[i]; });
    exp_avg_sq.check([&](std::int64_t i) { return other.exp_avg_sq[i]; });
  }

  Place<float> grad, master, exp_avg, exp_avg_sq;
};

void norms_in_pieces(const Exec& /*exec*/, const LambOptions& options, const StepScalars& scalars,
                     Span<const float> grad, Span<const float> master, Span<const float> exp_avg,
                     Span<const float> exp_avg_sq, TrustNorms& norms) {
  device::lamb_norms_in_pieces(4096, options, scalars, grad, master, exp_avg, exp_avg_sq, norms);
}

NormLimbs normalised(NormLimbs limbs) {
  device::grad_norm_normalise(limbs);
  return limbs;
}

}  // namespace

TEST_CASE("device: lamb_update is AdamW's with one more factor, and ratios may be any number") {
  if (!usable()) return;
  for (const float ratio : {1.0F, 0.37F, -0.0F, inf, no_number}) {
    for (const std::uint32_t has_decay : {0U, 1U}) {
      const bool maximize = ratio < 1 || has_decay != 0;
      CAPTURE(ratio);
      for_each_layout([&](std::int64_t numel, const int* offset) {
        Buffers b(numel, offset), expected = b;
        on_device<device::lamb_update>(exec, {maximize}, scalars(has_decay), ratio, b.grad.span(),
                                       b.master.span(), b.exp_avg.span(), b.exp_avg_sq.span());
        lamb_by_loop(scalars(has_decay), maximize, ratio, expected.operands());
        b.check_equal(expected);
      });
    }
  }
}

TEST_CASE("device: lamb_norms adds exact squares of master and u, and changes no operand") {
  if (!usable()) return;
  for (const bool finite : {false, true}) {
    for (const bool maximize : {false, true}) {
      const StepScalars s = scalars(maximize ? 1 : 0);
      for_each_layout([&](std::int64_t numel, const int* offset) {
        Buffers b(numel, offset, finite);
        const Buffers before = b;
        TrustNorms norms;
        norms.weight.limbs[3] = 5;
        norms.update.nan_count = 2;
        TrustNorms in_pieces = norms;
        const Span<const float> master = b.master.span(), m = b.exp_avg.span(),
                                v = b.exp_avg_sq.span();
        on_device<device::lamb_norms>(exec, {maximize}, s, b.grad.span(), master, m, v, norms);
        on_device<norms_in_pieces>(exec, {maximize}, s, b.grad.span(), master, m, v, in_pieces);
        b.check_equal(before);
        NormLimbs weight = oracle::to_limbs(sum_of_squares(master));
        NormLimbs update =
            oracle::to_limbs(sum_of_squares(lamb_updates(s, maximize, b.operands())));
        weight.limbs[3] += 5;
        update.nan_count += 2;
        for (const TrustNorms& found : {norms, in_pieces}) {
          CHECK(normalised(found.weight) == normalised(weight));
          CHECK(normalised(found.update) == normalised(update));
        }
      });
    }
  }
}

TEST_CASE("device: lamb_trust_ratio divides in fp64, and is 1 if a norm is 0") {
  if (!usable()) return;
  const StepScalars s = scalars(1);
  const std::array<std::vector<float>, 6> values = {{{},
                                                     {-0.0F, 0.0F},
                                                     {3e-3F, 1.0F, -7.0F},
                                                     {0x1p-149F},
                                                     {0x1p127F, inf},
                                                     {2.0F, no_number, inf}}};
  for (const std::vector<float>& weight : values) {
    for (const std::vector<float>& update : values) {
      const oracle_exact w = sum_of_squares(weight), u = sum_of_squares(update);
      TrustNorms norms{oracle::to_limbs(w), oracle::to_limbs(u)};
      const float ratio = lamb_ratio(s, oracle_exact_norm(&w), oracle_exact_norm(&u));
      CHECK(same(device::lamb_trust_ratio(s, norms), ratio));
      // The same value before carries are propagated.
      for (std::size_t i = 1; i < norms.weight.limbs.size(); ++i) {
        if (norms.weight.limbs[i] == 0) continue;
        norms.weight.limbs[i] -= 1;
        norms.weight.limbs[i - 1] += std::uint64_t{1} << 32;
        break;
      }
      CHECK(same(device::lamb_trust_ratio(s, norms), ratio));
    }
  }
  StepScalars still = s;
  still.lr = 0;
  TrustNorms ones;
  ones.weight.limbs[11] = ones.update.limbs[11] = 1;
  CHECK(same(device::lamb_trust_ratio(still, ones), 0.0F));
}

}  // namespace device_lamb_test
