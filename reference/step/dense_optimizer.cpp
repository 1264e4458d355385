#include "reference/dense_optimizer.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "common/base/error.hpp"
#include "common/base/fpenv.hpp"
#include "common/step/scaled_params.hpp"
#include "common/step/validate_setup.hpp"
#include "reference/gradients/binned_buffer.hpp"
#include "reference/norm_form.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

const StepSettings& validated(const StepSettings& settings) {
  validate_settings(settings);
  ZP_CHECK(settings.grad_sum != GradSum::native, ErrorCode::invalid_argument,
           "the gradient sum of the undistributed optimizer is native",
           "native sums have no reproducible bits to compare with", "use tree or binned");
  return settings;
}

constexpr auto no_other_ranks = [](BlockAmax&) {};  // all elements of every block are here

}  // namespace

MicroBatchFacts facts_of(const StepSettings& setup, const GradSource& leaves) {
  MicroBatchFacts facts;
  validate_settings(setup);
  const auto num_tensors = static_cast<std::int64_t>(setup.layout->tensors().size());
  for (std::int64_t j = 0; j < setup.micro_batches; ++j) {
    if (setup.loss_reduction == LossReduction::tokens)
      facts.num_tokens.push_back(leaves.num_tokens(j));
    if (setup.missing_grad != MissingGrad::skip) continue;
    std::vector<bool>& has_grad = facts.has_grad.emplace_back();
    for (std::int64_t tensor = 0; tensor < num_tensors; ++tensor) {
      has_grad.push_back(leaves.has_grad(j, tensor));
    }
  }
  return facts;
}

DenseOptimizer::DenseOptimizer(const StepSettings& setup, const FullState& initial)
    : setup_(validated(setup)),
      pieces_(setup.layout->pieces({{0, setup.layout->padded_numel()}})),
      max_norms_(max_norms_of(setup.clip_groups, setup.hyper.max_norm)),
      master_(nan_buffer(setup.layout->padded_numel())),
      state_(make_rule_state(setup.hyper, setup.layout->padded_numel())),
      stored_(setup, setup.layout->padded_numel(),
              {{0, setup.layout->padded_numel() / state_block_numel}}),
      matrices_(setup),
      param_(setup.param_dtype, setup.layout->padded_numel()),
      counts_(loaded_counts(initial, setup.missing_grad, *setup.layout)),
      scaler_(initial.scaler) {
  check_loaded(initial, setup.hyper, setup.layout->padded_numel());
  // The results are not needed yet; an out-of-range value must fail in the constructor, not in the
  // first step.
  loss_scaler_init(setup.scaler);
  const bool by_tokens = setup.loss_reduction == LossReduction::tokens;
  scalars(by_tokens ? 1 : setup.micro_batches);

  const auto load = [&](Span<const float> loaded, std::vector<float>& values) {
    for (const Piece& piece : pieces_)
      std::ranges::copy(at(loaded, piece), at(values, piece).begin());
  };
  load(initial.master, master_);
  for (auto& [slot, values] : state_) load(initial.slots[slot], values);
  stored_.load(initial, pieces_, state_, no_other_ranks);
  if (setup.state_formats.master == MasterFormat::bf16)
    bf16_master_.emplace(DType::bf16, setup.layout->padded_numel());
  if (bf16_master_) keep_master();
  if (has_scales(setup.param_dtype)) {
    begin_scales(initial);
  } else {
    round_parameters();
  }
  last_.grad_sum = last_.unscaled_grad = last_.grad = nan_buffer(setup.layout->padded_numel());
  last_.norms = PartialNorms(setup.clip_groups.count());
  last_.grad_norm.resize(max_norms_.size());
  last_.clip_coef.resize(max_norms_.size());
  last_.trust_ratio.assign(setup.layout->tensors().size(), 1);
  last_.orthogonal = nan_buffer(setup.layout->padded_numel());
  for (const Piece& piece : pieces_) std::ranges::fill(at(last_.orthogonal, piece), 0.0F);
}

std::int64_t DenseOptimizer::divisor(const MicroBatchFacts& facts) const {
  if (setup_.loss_reduction == LossReduction::mean) return setup_.micro_batches;
  ZP_CHECK(static_cast<std::int64_t>(facts.num_tokens.size()) == setup_.micro_batches,
           ErrorCode::invalid_argument,
           "a step got " + std::to_string(facts.num_tokens.size()) + " token counts",
           "the gradient is divided by the tokens of " + std::to_string(setup_.micro_batches) +
               " micro-batches",
           "pass one count for each");
  std::int64_t tokens = 0;
  for (std::int64_t j = 0; j < setup_.micro_batches; ++j) {
    add_tokens(tokens, j, facts.num_tokens[j]);
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
      static_cast<std::int64_t>(facts.has_grad.size()) == setup_.micro_batches,
      ErrorCode::invalid_argument,
      "a step got has_grad lists of " + std::to_string(facts.has_grad.size()) + " micro-batches",
      "with missing_grad = skip all " + std::to_string(setup_.micro_batches) +
          " decide which tensors are unused",
      "pass one list for each");
  for (const std::vector<bool>& has_grad : facts.has_grad) {
    ZP_CHECK(has_grad.size() == any.size(), ErrorCode::invalid_argument,
             "has_grad of a micro-batch has " + std::to_string(has_grad.size()) + " tensors",
             "one flag per tensor is needed, for " + std::to_string(any.size()),
             "pass [num_tensors]");
    for (std::size_t tensor = 0; tensor < any.size(); ++tensor) {
      any[tensor] = any[tensor] || has_grad[tensor];
    }
  }
  return any;
}

void DenseOptimizer::sum_gradients(const std::vector<TensorView>& leaves) {
  ZP_CHECK(static_cast<std::int64_t>(leaves.size()) == setup_.micro_batches,
           ErrorCode::invalid_argument,
           "a step got " + std::to_string(leaves.size()) + " gradients",
           "the step sums " + std::to_string(setup_.micro_batches) + " micro-batches",
           "pass one gradient for each");
  std::vector<std::vector<float>> widened;
  for (const TensorView& leaf : leaves) {
    ZP_CHECK(leaf.numel == setup_.layout->padded_numel() && leaf.dtype == leaves[0].dtype,
             ErrorCode::invalid_argument,
             "a gradient has " + std::to_string(leaf.numel) + " elements of " +
                 std::string(name(leaf.dtype)),
             "all gradients have the layout's padded_numel and one dtype", "pass such gradients");
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
    views.reserve(widened.size());
    for (const std::vector<float>& leaf : widened) views.push_back(at(leaf, piece));
    grad_sum({}, views, at(last_.grad_sum, piece));
  }
}

void DenseOptimizer::unscale_gradients() {
  bool any = false;
  for (const Piece& piece : pieces_) {
    const bool found = unscale({}, scalars_of(piece.tensor).inv_scale, at(last_.grad_sum, piece),
                               at(last_.unscaled_grad, piece));
    any = any || found;
  }
  last_.found_inf = any ? 1 : 0;
  ZP_CHECK(!any || setup_.on_nonfinite != OnNonfinite::error, ErrorCode::nonfinite,
           "step " + std::to_string(applied_steps() + 1) + " has a gradient that is not finite",
           "on_nonfinite is error",
           "find the cause in the gradients, lower the loss scale, or use on_nonfinite = skip");
  scaler_ = loss_scaler_update(setup_.scaler, scaler_, any);
  last_.skipped = any && setup_.on_nonfinite == OnNonfinite::skip;
  last_.grad_norm.assign(max_norms_.size(), std::numeric_limits<double>::quiet_NaN());
  last_.clip_coef.assign(max_norms_.size(), std::numeric_limits<float>::quiet_NaN());
}

void DenseOptimizer::clip_gradients() {
  const auto group_of = [&](const Piece& piece) {
    return static_cast<std::size_t>(setup_.clip_groups.of(piece.tensor));
  };

  // norm
  last_.norms = PartialNorms(setup_.clip_groups.count());
  for (const Piece& piece : pieces_) {
    last_.norms.accumulate(setup_.hyper.norm, group_of(piece), at(last_.unscaled_grad, piece));
  }
  last_.norms.normalise();
  last_.grad_norm = last_.norms.finish(setup_.hyper.norm);

  // clip
  for (std::size_t group = 0; group < max_norms_.size(); ++group) {
    last_.clip_coef[group] = clip_coef(last_.grad_norm[group], max_norms_[group]);
  }
  for (const Piece& piece : pieces_) {
    clip({}, last_.clip_coef[group_of(piece)], at(last_.unscaled_grad, piece),
         at(last_.grad, piece));
    if (setup_.hyper.clip_value) {
      clip_value({}, static_cast<float>(*setup_.hyper.clip_value), at(last_.grad, piece));
    }
  }
}

void DenseOptimizer::compute_trust_ratios(const std::vector<Piece>& used) {
  if (!traits_of(setup_.hyper.rule).trust_ratio) return;
  std::vector<TrustNorms> norms(last_.trust_ratio.size());
  for (const Piece& piece : used)
    add_trust_norms(setup_.hyper, scalars_of(piece.tensor), piece, last_.grad, master_, state_,
                    norms[piece.tensor]);
  // The norms of a tensor without elements or without an update are 0, and its ratio is 1.
  for (std::size_t tensor = 0; tensor < norms.size(); ++tensor)
    last_.trust_ratio[tensor] =
        lamb_trust_ratio(scalars_of(static_cast<std::int64_t>(tensor)), norms[tensor]);
}

void DenseOptimizer::update(const std::vector<bool>& has_grad) {
  std::vector<Piece> used;
  std::ranges::copy_if(pieces_, std::back_inserter(used), [&](const Piece& piece) {
    return !counts_.per_tensor || has_grad[piece.tensor];
  });
  stored_.read(used, state_);
  if (bf16_master_) bf16_master_->widen_into(master_, pieces_);
  compute_trust_ratios(used);
  matrices_.run(
      pieces_, [&](std::int64_t tensor) { return !counts_.per_tensor || has_grad[tensor]; },
      [this](std::int64_t tensor) -> const StepScalars& { return scalars_of(tensor); },
      {last_.grad, master_, state_, last_.orthogonal},
      [](std::int64_t, Span<std::uint64_t>) {});  // all elements of every matrix are here
  for (const Piece& piece : used) {
    if (matrices_.contains(piece.tensor)) continue;
    update_piece(setup_.hyper, scalars_of(piece.tensor), last_.trust_ratio[piece.tensor], piece,
                 last_.grad, master_, state_);
  }
  stored_.store(used, state_, no_other_ranks);
  counts_.count_step(has_grad);
  if (bf16_master_) keep_master();
}

void DenseOptimizer::round(ParamBuffer& param) const {
  if (setup_.param_rounding == ParamRounding::nearest) return param.round_from(master_, pieces_);
  param.round_at_random(master_, pieces_, setup_.seed,
                        [&](std::int64_t tensor) { return counts_.of(tensor); });
}

void DenseOptimizer::keep_master() {
  round(*bf16_master_);
  std::ranges::fill(master_,
                    std::numeric_limits<float>::quiet_NaN());  // reads of it become visible
}

void DenseOptimizer::round_parameters() {
  bf16_master_ ? param_.copy_from(*bf16_master_) : round(param_);
}

std::vector<float> DenseOptimizer::values(BufferId id) const {
  std::vector<float> values = id == BufferId::master ? master_ : state(id);
  if (id == BufferId::master && bf16_master_) bf16_master_->widen_into(values, pieces_);
  const std::optional<StateSlot> slot = slot_of(id);
  if (slot && stored_.has(*slot)) stored_[*slot].read(pieces_, values);
  return values;
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
  if (!scales_.exist()) {
    round_parameters();
    return true;
  }
  const TakesPart takes_part = [&](std::int64_t tensor) {
    return !counts_.per_tensor || has_grad[tensor];
  };
  scales_.move_histories(takes_part);
  cast_with_scales(takes_part);
  make_columns(takes_part);
  return true;
}

TensorView DenseOptimizer::param() const { return param_.view(); }

TensorView DenseOptimizer::buffer(BufferId id) const {
  const auto words = [](const auto& value, DType dtype) {
    // A view has no const; a caller that compares must only read.
    return TensorView{const_cast<void*>(static_cast<const void*>(&value)), dtype,
                      static_cast<std::int64_t>(sizeof(value)) / num_bytes(dtype)};
  };
  const bool by_limbs = setup_.hyper.norm != NormForm::inf;
  if (const std::optional<StateSlot> slot = slot_of(id)) {
    if (stored_.has(*slot)) return stored_[*slot].codes();
    return state_.contains(*slot) ? array_view(state_.at(*slot)) : TensorView{};
  }
  if (const std::optional<StateSlot> slot = slot_of_scales(id))
    return stored_.has_scales(*slot) ? stored_.scales(*slot).view : TensorView{};
  switch (id) {
    case BufferId::step_scalars:
      return words_view(last_.scalars, DType::u32);
    case BufferId::tensor_steps:
      return words_view(counts_.tensor_steps, DType::u64);
    case BufferId::applied_steps:
      return words(counts_.applied_steps, DType::u64);
    case BufferId::found_inf:
      return words(last_.found_inf, DType::u32);
    case BufferId::loss_scaler:
      return words(scaler_, DType::u32);
    case BufferId::norm_limbs:
      return by_limbs ? words_view(last_.norms.limbs, DType::u64) : TensorView{};
    case BufferId::grad_amax:
      return by_limbs ? TensorView{} : words_view(last_.norms.amax, DType::u32);
    case BufferId::grad_norm:
      return words_view(last_.grad_norm, DType::fp64);
    case BufferId::clip_coef:
      return words_view(last_.clip_coef, DType::fp32);
    case BufferId::trust_ratio:
      return traits_of(setup_.hyper.rule).trust_ratio ? array_view(last_.trust_ratio)
                                                      : TensorView{};
    case BufferId::orthogonal:
      return traits_of(setup_.hyper.rule).matrices ? array_view(last_.orthogonal) : TensorView{};
    case BufferId::grad_sum:
      return array_view(last_.grad_sum);
    case BufferId::unscaled_grad:
      return array_view(last_.unscaled_grad);
    case BufferId::grad:
      return array_view(last_.grad);
    case BufferId::master:
      return bf16_master_ ? bf16_master_->view() : array_view(master_);
    case BufferId::param_shard:
    case BufferId::param_full:
      return param();
    case BufferId::param_columns:
      return scales_.exist() && setup_.scaling.columnwise ? param_columns_.view() : TensorView{};
    case BufferId::column_shard:
      return column_scales_.exist() ? param_columns_.view() : TensorView{};
    case BufferId::column_amax:
      return column_scales_.exist() ? words_view(column_scales_.amax, DType::u32) : TensorView{};
    case BufferId::column_scale:
      return column_scales_.exist() ? array_view(column_scales_.scale) : TensorView{};
    case BufferId::column_scale_inv:
      return column_scales_.exist() ? array_view(column_scales_.scale_inv) : TensorView{};
    case BufferId::amax:
      return words_view(scales_.amax, DType::u32);
    case BufferId::amax_history:
      return words_view(scales_.amax_history, DType::u32);
    case BufferId::param_scale:
      return words_view(scales_.scale, DType::fp32);
    case BufferId::param_scale_inv:
      return words_view(scales_.scale_inv, DType::fp32);
    default:
      return {};
  }
}

// 8-bit parameters without ranks (R24).

void DenseOptimizer::cast_with_scales(const TakesPart& takes_part) {
  scales_.collect(master_, pieces_,
                  takes_part);  // of whole tensors: there are no ranks to join
  scales_.make(takes_part);
  scales_.cast(master_, pieces_, takes_part, param_.view());
}

void DenseOptimizer::make_columns(const TakesPart& takes_part) {
  if (!setup_.scaling.columnwise) return;
  if (!column_scales_.exist())
    return transpose_codes(layout(), pieces_, param_.view(), param_columns_.view());
  column_scales_.collect(master_, pieces_, takes_part);
  column_scales_.make(takes_part);
  column_scales_.cast(master_, pieces_, takes_part, param_columns_.view());
}

void DenseOptimizer::begin_scales(const FullState& initial) {
  scales_ = ParamScales(setup_, blocks_of(setup_));
  if (setup_.scaling.columnwise)
    param_columns_ = ParamBuffer(setup_.param_dtype, layout().padded_numel());
  if (has_own_columns(setup_.scaling))
    column_scales_ = ParamScales(setup_, column_blocks_of(setup_));
  const TakesPart all = [](std::int64_t) { return true; };
  const bool beginning = !has_loaded_scales(initial, setup_, scales_.blocks());
  if (beginning) {
    cast_with_scales(all);
  } else {
    scales_.load(initial);
    scales_.cast(master_, pieces_, all, param_.view());
  }
  if (beginning && setup_.scaling.initial_master == InitialMaster::dequantised) {
    scales_.dequantize(param_.view(), pieces_, master_);
  }
  make_columns(all);  // of the initial masters
}

}  // namespace zeroproof::reference
