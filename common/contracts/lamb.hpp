#pragma once

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "common/contracts/grad_norm.hpp"
#include "common/contracts/step_scalars.hpp"

namespace zeroproof {

struct LambOptions {
  bool maximize = false;  ///< ascend: the sign of grad is flipped first
};

/// The two norms of one tensor's trust ratio, as integers (R12, form `exact`).
struct TrustNorms {
  NormLimbs weight;  ///< squares of master before the update
  NormLimbs update;  ///< squares of u, the update before it is scaled

  bool operator==(const TrustNorms&) const = default;
};

/// Adds the squares of master and of u, one piece of one tensor, to its two norms. Changes nothing else.
///
/// Shapes   grad, master, exp_avg, exp_avg_sq: [numel], the same global range of one tensor, numel >= 0, split
///          anywhere. No two overlap.
/// Units    as AdamwUpdateFn.
/// Order    u of AdamwUpdateFn without amsgrad, from the moments as that update would leave them; then integers.
/// Exact    bitwise: the represented values and the counts; carries may be left until grad_norm_normalise. At most
///          2^32 - 1 deposits go into limbs between two normalisations.
/// Special  A NaN counts in nan_count, an infinity in inf_count of its norm.
/// Errors   invalid_argument if the numels differ.
/// Source   [LAMB:alg2]; contract R6, R12.
using LambNormsFn = void(const Exec&, const LambOptions&, const StepScalars&,
                         Span<const float> grad, Span<const float> master,
                         Span<const float> exp_avg, Span<const float> exp_avg_sq,
                         TrustNorms& norms);

/// The trust ratio of a tensor whose norms contain the elements of all ranks (normalised or not).
///
/// Returns  1 if either norm is 0; otherwise fp32((lr * N_w) / N_u) in fp64, NaN if either norm is. lr is the fp32
///          scalar, widened; N_w and N_u as grad_norm_finish returns them.
/// Exact    bitwise.
/// Source   [LAMB:alg2], [LAMB:units]; contract R6.
using LambTrustRatioFn = float(const StepScalars&, const TrustNorms& norms);

/// LAMB update of one piece of one tensor, in place: AdamW's update, scaled by the tensor's trust ratio.
///
/// Shapes   grad, master, exp_avg, exp_avg_sq: [numel], the same global range, numel >= 0. No two overlap.
/// Units    grad: unscaled and clipped. trust_ratio: a factor of u, one for all pieces of a tensor.
/// Order    one fp32 rounding per operation, for every element (R6): u as AdamwUpdateFn without amsgrad, then
///            p = trust_ratio * u;  master = master - p
/// Exact    bitwise across reference, host and device.
/// Special  NaN and infinities propagate, also from trust_ratio.
/// Errors   invalid_argument if the numels differ.
/// Source   [LAMB:alg2]; contract R6.
using LambUpdateFn = void(const Exec&, const LambOptions&, const StepScalars&, float trust_ratio,
                          Span<const float> grad, Span<float> master, Span<float> exp_avg,
                          Span<float> exp_avg_sq);

}  // namespace zeroproof
