#include "reference/dense_optimizer.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "common/base/error.hpp"
#include "common/base/fpenv.hpp"
#include "reference/binned_exchange.hpp"
#include "reference/clip.hpp"
#include "reference/grad_scale.hpp"
#include "reference/grad_sum.hpp"
#include "reference/loss_scaler.hpp"
#include "reference/micro_batches.hpp"
#include "reference/norm_form.hpp"

namespace zeroproof::reference {
namespace {

const FlatLayout& checked_layout(const DenseSetup& setup) {
  ZP_CHECK(setup.layout != nullptr, ErrorCode::invalid_argument, "the dense optimizer has no layout",
           "it says where the tensors are", "set DenseSetup::layout");
  return *setup.layout;
}

}  // namespace

MicroBatchFacts facts_of(const DenseSetup& setup, const LeafSource& leaves) {
  MicroBatchFacts facts;
  const auto num_tensors = static_cast<std::int64_t>(checked_layout(setup).tensors().size());
  for (std::int64_t j = 0; j < setup.micro_batches; ++j) {
    if (setup.loss_reduction == LossReduction::tokens) facts.num_tokens.push_back(leaves.num_tokens(j));
    if (setup.missing_grad != MissingGrad::skip) continue;
    std::vector<bool>& has_grad = facts.has_grad.emplace_back();
    for (std::int64_t tensor = 0; tensor < num_tensors; ++tensor) {
      has_grad.push_back(leaves.has_grad(j, tensor));
    }
  }
  return facts;
}

DenseOptimizer::DenseOptimizer(const DenseSetup& setup, const FullState& initial)
    : setup_(setup),
      pieces_(checked_layout(setup).pieces({{0, setup.layout->padded_numel()}})),
      master_(nan_buffer(setup.layout->padded_numel())),
      state_(make_rule_state(setup.hyper, setup.layout->padded_numel())),
      param_(setup.param_dtype, setup.layout->padded_numel()),
      counts_(loaded_counts(initial, setup.missing_grad, *setup.layout)),
      scaler_(initial.scaler) {
  check_loaded(initial, setup.hyper, setup.layout->padded_numel());
  ZP_CHECK(setup.micro_batches >= 1, ErrorCode::invalid_argument,
           "micro_batches is " + std::to_string(setup.micro_batches), "a step needs a gradient",
           "use 1 or more");
  ZP_CHECK(setup.grad_sum == GradSum::tree ||
               (setup.grad_sum == GradSum::binned && setup.micro_batches <= binned_max_leaves),
           ErrorCode::invalid_argument,
           "the gradient sum is " + std::string(name(setup.grad_sum)) + " over " +
               std::to_string(setup.micro_batches) + " micro-batches",
           "only the tree, and bins with up to " + std::to_string(binned_max_leaves) +
               " leaves, have bits to compare",
           "use tree, or fewer micro-batches");
  // Neither result is needed yet, but a number out of range should not wait for the first step.
  loss_scaler_init(setup.scaler);
  const bool by_tokens = setup.loss_reduction == LossReduction::tokens;
  check_groups(setup.groups, *setup.layout);
  scalars(by_tokens ? 1 : setup.micro_batches);

  const auto load = [&](BufferId id, std::vector<float>& values) {
    for (const Piece& piece : pieces_)
      std::ranges::copy(at(loaded(initial, id), piece), at(values, piece).begin());
  };
  load(BufferId::master, master_);
  for (auto& [id, values] : state_) load(id, values);
  round_parameters();
  last_.grad_sum = last_.unscaled_grad = last_.grad = nan_buffer(setup.layout->padded_numel());
}

std::int64_t DenseOptimizer::divisor(const MicroBatchFacts& facts) const {
  if (setup_.loss_reduction == LossReduction::mean) return setup_.micro_batches;
  ZP_CHECK(
      static_cast<std::int64_t>(facts.num_tokens.size()) == setup_.micro_batches, ErrorCode::invalid_argument,
      "a step got " + std::to_string(facts.num_tokens.size()) + " token counts",
      "the gradient is divided by the tokens of " + std::to_string(setup_.micro_batches) + " micro-batches",
      "pass one count for each");
  std::int64_t tokens = 0;
  for (std::int64_t j = 0; j < setup_.micro_batches; ++j) {
    add_tokens(tokens, j, facts.num_tokens[static_cast<std::size_t>(j)]);
  }
  return tokens == 0 ? 1 : tokens;
}

std::vector<StepScalars> DenseOptimizer::scalars(std::int64_t divisor) const {
  return scalars_of_step(setup_.hyper, setup_.groups, counts_, scaler_.log2_scale, divisor,
                         setup_.micro_batches);
}

std::vector<bool> DenseOptimizer::tensors_with_grad(const MicroBatchFacts& facts) const {
  std::vector<bool> any(setup_.layout->tensors().size(), false);
  if (setup_.missing_grad != MissingGrad::skip) return any;
  ZP_CHECK(
      static_cast<std::int64_t>(facts.has_grad.size()) == setup_.micro_batches, ErrorCode::invalid_argument,
      "a step was told of the gradients of " + std::to_string(facts.has_grad.size()) + " micro-batches",
      "with missing_grad = skip all " + std::to_string(setup_.micro_batches) + " decide which tensors rest",
      "pass one list for each");
  for (const std::vector<bool>& has_grad : facts.has_grad) {
    ZP_CHECK(has_grad.size() == any.size(), ErrorCode::invalid_argument,
             "a micro-batch was told about " + std::to_string(has_grad.size()) + " tensors",
             "the layout has " + std::to_string(any.size()), "pass [num_tensors]");
    for (std::size_t tensor = 0; tensor < any.size(); ++tensor) {
      any[tensor] = any[tensor] || has_grad[tensor];
    }
  }
  return any;
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
  if (setup_.grad_sum == GradSum::binned) {
    BinnedBuffer sum(setup_.layout->padded_numel());
    for (const std::vector<float>& leaf : widened) sum.deposit(leaf, 0, pieces_);
    last_.grad_sum = sum.finish(pieces_);
    return;
  }
  for (const Piece& piece : pieces_) {
    std::vector<Span<const float>> views;
    for (const std::vector<float>& leaf : widened) views.push_back(at(leaf, piece));
    grad_sum({}, views, at(last_.grad_sum, piece));
  }
}

void DenseOptimizer::unscale_gradients() {
  last_.found_inf = false;
  for (const Piece& piece : pieces_) {
    const bool found =
        unscale({}, scalars_of(piece).inv_scale, at(last_.grad_sum, piece), at(last_.unscaled_grad, piece));
    last_.found_inf = last_.found_inf || found;
  }
  ZP_CHECK(!last_.found_inf || setup_.on_nonfinite != OnNonfinite::error, ErrorCode::nonfinite,
           "step " + std::to_string(applied_steps() + 1) + " has a gradient that is not finite",
           "the run was told to stop then (on_nonfinite = error)",
           "look for the cause in the leaves, lower the loss scale, or use on_nonfinite = skip");
  scaler_ = loss_scaler_update(setup_.scaler, scaler_, last_.found_inf);
  last_.skipped = last_.found_inf && setup_.on_nonfinite == OnNonfinite::skip;
  last_.grad_norm = std::numeric_limits<double>::quiet_NaN();
  last_.clip_coef = std::numeric_limits<float>::quiet_NaN();
}

void DenseOptimizer::clip_gradients() {
  // norm
  PartialNorm norm;
  for (const Piece& piece : pieces_) accumulate(setup_.hyper.norm, at(last_.unscaled_grad, piece), norm);
  last_.grad_norm = finish(setup_.hyper.norm, norm);

  // clip
  last_.clip_coef = clip_coef(last_.grad_norm, setup_.hyper.max_norm);
  for (const Piece& piece : pieces_) {
    clip({}, last_.clip_coef, at(last_.unscaled_grad, piece), at(last_.grad, piece));
    if (setup_.hyper.clip_value) {
      clip_value({}, static_cast<float>(*setup_.hyper.clip_value), at(last_.grad, piece));
    }
  }
}

void DenseOptimizer::update(const std::vector<bool>& has_grad) {
  for (const Piece& piece : pieces_) {
    const bool rests = counts_.per_tensor && !has_grad[static_cast<std::size_t>(piece.tensor)];
    if (!rests) update_piece(setup_.hyper, scalars_of(piece), piece, last_.grad, master_, state_);
  }
  counts_.count_step(has_grad);
}

void DenseOptimizer::round_parameters() {
  if (setup_.param_rounding == ParamRounding::nearest) return param_.round_from(master_, pieces_);
  param_.round_at_random(master_, pieces_, setup_.seed,
                         [&](std::int64_t tensor) { return counts_.of(tensor); });
}

bool DenseOptimizer::step(const std::vector<TensorView>& leaves, const MicroBatchFacts& facts) {
  require_fp_environment("dense reference");

  // prepare
  const std::vector<bool> has_grad = tensors_with_grad(facts);
  last_.log2_loss_scale = scaler_.log2_scale;
  last_.scalars = scalars(divisor(facts));

  // reduce
  sum_gradients(leaves);

  // unscale
  unscale_gradients();
  if (last_.skipped) return false;

  // norm, clip
  clip_gradients();

  // update
  update(has_grad);

  // cast; with one process there is nothing to gather
  round_parameters();
  return true;
}

TensorView DenseOptimizer::param() const { return param_.view(); }

TensorView DenseOptimizer::buffer(BufferId id) const {
  const auto view = [](const std::vector<float>& values) {
    // A view has no const; whoever compares only reads.
    return TensorView{const_cast<float*>(values.data()), DType::fp32,
                      static_cast<std::int64_t>(values.size())};
  };
  if (state_.contains(id)) return view(state_.at(id));
  switch (id) {
    case BufferId::step_scalars: {
      const auto words = static_cast<std::int64_t>(last_.scalars.size()) * num_step_scalar_words;
      return {const_cast<StepScalars*>(last_.scalars.data()), DType::u32, words};
    }
    case BufferId::tensor_steps: {
      const std::vector<std::uint64_t>& steps = counts_.tensor_steps;
      return {const_cast<std::uint64_t*>(steps.data()), DType::u64, static_cast<std::int64_t>(steps.size())};
    }
    case BufferId::grad_sum:
      return view(last_.grad_sum);
    case BufferId::unscaled_grad:
      return view(last_.unscaled_grad);
    case BufferId::grad:
      return view(last_.grad);
    case BufferId::master:
      return view(master_);
    case BufferId::param_shard:
    case BufferId::param_full:
      return param();
    default:
      return {};
  }
}

}  // namespace zeroproof::reference
