#include "reference/dense_optimizer.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "common/base/error.hpp"
#include "common/base/fpenv.hpp"
#include "reference/adam.hpp"
#include "reference/clip.hpp"
#include "reference/grad_norm.hpp"
#include "reference/grad_scale.hpp"
#include "reference/grad_sum.hpp"
#include "reference/loss_scaler.hpp"
#include "reference/step_scalars.hpp"

namespace zeroproof::reference {
namespace {

const FlatLayout& checked_layout(const DenseSetup& setup) {
  ZP_CHECK(setup.layout != nullptr, ErrorCode::invalid_argument, "the dense optimizer has no layout",
           "it says where the tensors are", "set DenseSetup::layout");
  return *setup.layout;
}

void check_state(const FullState& state, std::int64_t padded_numel) {
  for (const Span<const float> view : {state.master, state.exp_avg, state.exp_avg_sq}) {
    ZP_CHECK(numel(view) == padded_numel, ErrorCode::invalid_argument,
             "an initial state has " + std::to_string(view.size()) + " elements",
             "the layout has " + std::to_string(padded_numel) + " with padding", "pass [padded_numel]");
  }
  ZP_CHECK(state.applied_steps >= 0, ErrorCode::invalid_argument,
           "applied_steps is " + std::to_string(state.applied_steps), "it counts steps", "pass 0 or more");
}

}  // namespace

DenseOptimizer::DenseOptimizer(const DenseSetup& setup, const FullState& initial)
    : setup_(setup),
      pieces_(checked_layout(setup).pieces({{0, setup.layout->padded_numel()}})),
      master_(nan_buffer(setup.layout->padded_numel())),
      exp_avg_(master_),
      exp_avg_sq_(master_),
      param_(setup.param_dtype, setup.layout->padded_numel()),
      applied_steps_(initial.applied_steps),
      scaler_(initial.scaler) {
  check_state(initial, setup.layout->padded_numel());
  ZP_CHECK(setup.micro_batches >= 1, ErrorCode::invalid_argument,
           "micro_batches is " + std::to_string(setup.micro_batches), "a step needs a gradient",
           "use 1 or more");
  // Neither result is needed yet, but a number out of range should not wait for the first step.
  loss_scaler_init(setup.scaler);
  step_scalars(setup.hyper, applied_steps_ + 1, scaler_.log2_scale, setup.micro_batches);
  for (const Piece& piece : pieces_) {
    std::ranges::copy(at(initial.master, piece), at(master_, piece).begin());
    std::ranges::copy(at(initial.exp_avg, piece), at(exp_avg_, piece).begin());
    std::ranges::copy(at(initial.exp_avg_sq, piece), at(exp_avg_sq_, piece).begin());
  }
  param_.round_from(master_, pieces_);
  last_.grad_sum = last_.unscaled_grad = last_.grad = nan_buffer(setup.layout->padded_numel());
}

void DenseOptimizer::sum_gradients(const std::vector<TensorView>& leaves) {
  ZP_CHECK(static_cast<std::int64_t>(leaves.size()) == setup_.micro_batches, ErrorCode::invalid_argument,
           "a step got " + std::to_string(leaves.size()) + " leaves",
           "the mean is over " + std::to_string(setup_.micro_batches) + " micro-batches",
           "pass one leaf for each");
  std::vector<std::vector<float>> widened;
  for (const TensorView& leaf : leaves) {
    ZP_CHECK(leaf.numel == setup_.layout->padded_numel() && leaf.dtype == leaves[0].dtype,
             ErrorCode::invalid_argument,
             "a leaf has " + std::to_string(leaf.numel) + " elements of " + std::string(name(leaf.dtype)),
             "all leaves have the layout's padded_numel and one dtype", "pass such leaves");
    widened.push_back(widen_leaf(leaf, pieces_));
  }
  for (const Piece& piece : pieces_) {
    std::vector<Span<const float>> views;
    for (const std::vector<float>& leaf : widened) views.push_back(at(leaf, piece));
    grad_sum({}, views, at(last_.grad_sum, piece));
  }
}

bool DenseOptimizer::step(const std::vector<TensorView>& leaves) {
  require_fp_environment("dense reference");

  // prepare
  const std::int64_t t = applied_steps_ + 1;
  last_.log2_loss_scale = scaler_.log2_scale;
  last_.scalars = step_scalars(setup_.hyper, t, scaler_.log2_scale, setup_.micro_batches);

  // reduce
  sum_gradients(leaves);

  // unscale
  last_.found_inf = false;
  for (const Piece& piece : pieces_) {
    const bool found =
        unscale({}, last_.scalars.inv_scale, at(last_.grad_sum, piece), at(last_.unscaled_grad, piece));
    last_.found_inf = last_.found_inf || found;
  }
  scaler_ = loss_scaler_update(setup_.scaler, scaler_, last_.found_inf);
  last_.grad_norm = std::numeric_limits<double>::quiet_NaN();
  last_.clip_coef = std::numeric_limits<float>::quiet_NaN();
  if (last_.found_inf) return false;

  // norm
  NormLimbs limbs;
  for (const Piece& piece : pieces_) grad_norm_accumulate({}, at(last_.unscaled_grad, piece), limbs);
  last_.grad_norm = grad_norm_finish(limbs);

  // clip
  last_.clip_coef = clip_coef(last_.grad_norm, setup_.hyper.max_norm);
  for (const Piece& piece : pieces_) {
    clip({}, last_.clip_coef, at(last_.unscaled_grad, piece), at(last_.grad, piece));
  }

  // update
  for (const Piece& piece : pieces_) {
    adamw_update({}, last_.scalars, at(last_.grad, piece), at(master_, piece), at(exp_avg_, piece),
                 at(exp_avg_sq_, piece));
  }
  applied_steps_ = t;

  // cast; with one process there is nothing to gather
  param_.round_from(master_, pieces_);
  return true;
}

TensorView DenseOptimizer::param() const { return param_.view(); }

}  // namespace zeroproof::reference
