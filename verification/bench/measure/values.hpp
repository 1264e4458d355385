#pragma once
// The numbers a step starts from, addressed by element: any rank and any layout can make any part of them.

#include <cstdint>

#include "common/base/span.hpp"
#include "common/contracts/step_scalars.hpp"

namespace zeroproof::verification::bench {

/// Steps that were applied before the first one, and the loss scale 2^k.
inline constexpr std::int64_t steps_before = 9;
inline constexpr int log2_loss_scale = 10;

/// Elements [begin, begin + out.size()) of micro-batch j's gradient; begin is a multiple of 4.
void fill_leaf(std::int64_t micro_batch, std::int64_t begin, Span<float> out);

/// The same of the first state.
void fill_master(std::int64_t begin, Span<float> out);
void fill_exp_avg(std::int64_t begin, Span<float> out);
void fill_exp_avg_sq(std::int64_t begin, Span<float> out);

/// AdamW; gradients are so large that a norm of 1 clips.
OptimizerHyper step_hyper(bool clips);

}  // namespace zeroproof::verification::bench
