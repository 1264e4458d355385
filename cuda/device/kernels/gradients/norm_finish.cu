#include "cuda/device/kernels/gradients/norm_finish.cuh"

#include <algorithm>

#include "cuda/device/kernels/base/single.cuh"
#include "cuda/device/operations.hpp"

namespace zeroproof::cuda::device {

namespace {

/// Limbs and counts as a kernel argument.
struct Sums {
  std::uint64_t words[norm_num_sums];
};

Sums sums_of(const NormLimbs& limbs) {
  Sums sums{};
  std::ranges::copy(limbs.limbs, sums.words);
  sums.words[norm_nan_count] = limbs.nan_count;
  sums.words[norm_inf_count] = limbs.inf_count;
  return sums;
}

struct Normalise {
  Sums sums;

  ZP_DEVICE Sums operator()() const {
    Sums result = sums;
    carry_limbs(result.words);
    return result;
  }
};

struct Root {
  Sums sums;

  ZP_DEVICE double operator()() const {
    Sums own = sums;
    return norm_of_squares(own.words);
  }
};

struct Total {
  Sums sums;

  ZP_DEVICE double operator()() const {
    Sums own = sums;
    return sum_of_limbs(own.words);
  }
};

struct Largest {
  std::uint32_t amax;

  ZP_DEVICE double operator()() const { return norm_of_largest(amax); }
};

}  // namespace

void grad_norm_normalise(NormLimbs& limbs) {
  const Sums sums = on_device<Sums>(Normalise{sums_of(limbs)});
  std::copy_n(sums.words, limbs.limbs.size(), limbs.limbs.begin());
}

double grad_norm_finish(const NormLimbs& limbs) { return on_device<double>(Root{sums_of(limbs)}); }

double grad_abs_finish(const NormLimbs& limbs) { return on_device<double>(Total{sums_of(limbs)}); }

double grad_max_finish(std::uint32_t amax) { return on_device<double>(Largest{amax}); }

}  // namespace zeroproof::cuda::device
