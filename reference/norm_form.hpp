#pragma once
// The global norm in the form a run has chosen (R12).

#include <vector>

#include "common/contracts/grad_norm.hpp"
#include "common/contracts/step_scalars.hpp"

namespace zeroproof::reference {

/// Partial result of a norm. Only one of the two members is used: amax in the form inf, limbs in
/// all others.
struct PartialNorm {
  NormLimbs limbs;
  std::uint32_t amax = 0;
};

/// The same for every clip group. limbs and amax are contiguous arrays, for observers.
struct PartialNorms {
  PartialNorms() = default;
  explicit PartialNorms(int groups)
      : limbs(static_cast<std::size_t>(groups)), amax(static_cast<std::size_t>(groups)) {}

  std::vector<NormLimbs> limbs;     ///< [clip groups]
  std::vector<std::uint32_t> amax;  ///< [clip groups]

  PartialNorm of(std::size_t group) const { return {limbs[group], amax[group]}; }
  /// Adds elements of a tensor of this group, starting at a chunk boundary of the tensor.
  void accumulate(NormForm form, std::size_t group, Span<const float> grad);
  void normalise();
  /// N of every group.
  std::vector<double> finish(NormForm form) const;
};

/// Adds a piece of a tensor, which starts at a chunk boundary of the tensor.
void accumulate(NormForm form, Span<const float> grad, PartialNorm& norm);

/// N, from the sums over all ranks.
double finish(NormForm form, const PartialNorm& norm);

}  // namespace zeroproof::reference
