#include "cuda/host/gradients/norm_forms.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/host/base/parallel_blocks.hpp"
#include "cuda/host/gradients/limb_deposit.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::cuda::host {
namespace {

constexpr std::uint32_t infinity_bits = 0x7F800000U;
constexpr std::uint32_t nan_bits = 0x7FFFFFFFU;
constexpr int most_integer_power = 64;

double power_sum_of(const SimdKernels& kernels, double largest, double p, Span<const float> grad) {
  if (p <= most_integer_power && p == std::floor(p)) {
    return kernels.power_sum(largest, static_cast<int>(p), grad.data(), numel(grad));
  }
  double sum = 0;
  for (const float x : grad) {
    // 0 is skipped: it adds nothing, and pow of it is slow.
    if (x != 0) sum += std::pow(std::fabs(static_cast<double>(x)) / largest, p);
  }
  return sum;
}

}  // namespace

void accumulate_exact(const Exec& exec, ExactTerm term, float factor, Span<const float> grad,
                      NormLimbs& limbs) {
  const SimdKernels& kernels = simd_kernels(exec.isa);
  NormLimbs total;
  parallel_sum(
      exec, numel(grad), total,
      [&](std::int64_t begin, std::int64_t end, NormLimbs& mine) {
        ExactSum sum;
        sum.add(kernels, term, factor, grad.data() + begin, end - begin);
        merge(sum.limbs(), mine);
      },
      merge);
  // A block is one deposit of digits below 2^32, so `total` can take 2^46 elements; the present
  // value of the caller's limbs is unknown here, and normalising restores the full range.
  grad_norm_normalise(total);
  grad_norm_normalise(limbs);
  merge(total, limbs);
}

void accumulate_max(const Exec& exec, float factor, Span<const float> grad, std::uint32_t& amax) {
  const SimdKernels& kernels = simd_kernels(exec.isa);
  parallel_sum(
      exec, numel(grad), amax,
      [&](std::int64_t begin, std::int64_t end, std::uint32_t& mine) {
        const std::uint32_t largest =
            kernels.largest_magnitude(factor, grad.data() + begin, end - begin);
        mine = std::max(mine, largest > infinity_bits ? nan_bits : largest);
      },
      [](std::uint32_t mine, std::uint32_t& all) { all = std::max(all, mine); });
}

void grad_norm_exact_accumulate(const Exec& exec, Span<const float> grad, NormLimbs& limbs) {
  accumulate_exact(exec, ExactTerm::square, 1.0F, grad, limbs);
}

void grad_abs_accumulate(const Exec& exec, Span<const float> grad, NormLimbs& limbs) {
  accumulate_exact(exec, ExactTerm::magnitude, 1.0F, grad, limbs);
}

void grad_max_accumulate(const Exec& exec, Span<const float> grad, std::uint32_t& amax) {
  accumulate_max(exec, 1.0F, grad, amax);
}

double grad_max_finish(std::uint32_t amax) {
  if (amax > infinity_bits) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(std::bit_cast<float>(amax));
}

double grad_norm_p(const Exec& exec, Span<const float> grad, double p) {
  ZP_CHECK(std::isfinite(p) && p > 0, ErrorCode::invalid_argument,
           "the norm's p is " + std::to_string(p), "the sum of the p-th powers is raised to 1 / p",
           "use a finite number above 0, or the form inf");
  std::uint32_t amax = 0;
  grad_max_accumulate(exec, grad, amax);
  const double largest = grad_max_finish(amax);
  if (largest == 0 || !std::isfinite(largest)) return largest;
  const SimdKernels& kernels = simd_kernels(exec.isa);
  std::vector<double> blocks((grad.size() + block_numel - 1) / block_numel);
  parallel_blocks(exec, numel(grad), [&](std::int64_t begin, std::int64_t end) {
    const auto block = grad.subspan(begin, end - begin);
    blocks[begin / block_numel] = power_sum_of(kernels, largest, p, block);
  });
  double sum = 0;
  for (const double block : blocks) sum += block;  // in order of blocks: no dependence on threads
  return largest * std::pow(sum, 1.0 / p);
}

}  // namespace zeroproof::cuda::host
