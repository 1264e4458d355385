#include "reference/sharded_optimizer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "common/base/error.hpp"
#include "common/base/fpenv.hpp"
#include "reference/blocks.hpp"
#include "reference/clip.hpp"
#include "reference/grad_norm.hpp"
#include "reference/grad_scale.hpp"
#include "reference/gradient_exchange.hpp"
#include "reference/loss_scaler.hpp"
#include "reference/micro_batches.hpp"
#include "reference/same_scalars.hpp"

namespace zeroproof::reference {

ShardedOptimizer::ShardedOptimizer(const OptimizerSetup& setup) : setup_(setup) {
  const std::int64_t padded_numel = setup.layout->padded_numel();
  ranges_ =
      setup.stage == 0 ? std::vector<FlatRange>{{0, padded_numel}} : setup.shards->shard(setup.comm->rank());
  pieces_ = setup.layout->pieces(ranges_);

  scaler_ = loss_scaler_init(setup.scaler);
  // The values are not needed yet, but a hyper-parameter out of range should not wait for the first step.
  const bool by_tokens = setup.loss_reduction == LossReduction::tokens;
  counts_.per_tensor = setup.missing_grad == MissingGrad::skip;
  counts_.tensor_steps.resize(counts_.per_tensor ? setup.layout->tensors().size() : 0);
  has_grad_.resize(counts_.tensor_steps.size(), true);
  scalars_ = scalars_of_step(setup.hyper, setup.groups, counts_, scaler_.log2_scale,
                             by_tokens ? 1 : setup.micro_batches, setup.micro_batches);

  const std::int64_t numel = setup.stage == 0 ? padded_numel : setup.shards->shard_numel(setup.comm->rank());
  for (std::vector<float>* values : {&grad_sum_, &unscaled_grad_, &grad_, &master_}) {
    *values = nan_buffer(numel);
  }
  state_ = make_rule_state(setup.hyper, numel);
  param_shard_ = ParamBuffer(setup.param_dtype, numel);
  param_full_ = ParamBuffer(setup.param_dtype, padded_numel);
}

void ShardedOptimizer::load_state(const FullState& state) {
  const std::int64_t padded_numel = setup_.layout->padded_numel();
  check_loaded(state, setup_.hyper, padded_numel);
  // In place, because taps may hold views of what is there.
  const StepCounts counts = loaded_counts(state, setup_.missing_grad, *setup_.layout);
  counts_.applied_steps = counts.applied_steps;
  std::ranges::copy(counts.tensor_steps, counts_.tensor_steps.begin());

  const auto load = [&](BufferId id, std::vector<float>& shard) {
    for (const Piece& piece : pieces_) {
      std::ranges::copy(part(loaded(state, id), piece.global_begin, piece.numel), at(shard, piece).begin());
    }
  };
  load(BufferId::master, master_);
  for (auto& [id, shard] : state_) load(id, shard);
  scaler_ = state.scaler;
  found_inf_ = 0;
  round(param_shard_, master_, pieces_);
  // The whole master is at hand, so nobody has to be asked: loading is not a collective call.
  round(param_full_, state.master, setup_.layout->pieces({{0, padded_numel}}));
  loaded_ = true;
}

void ShardedOptimizer::round(ParamBuffer& param, Span<const float> master,
                             const std::vector<Piece>& pieces) const {
  if (setup_.param_rounding == ParamRounding::nearest) return param.round_from(master, pieces);
  param.round_at_random(master, pieces, setup_.seed, [&](std::int64_t tensor) { return counts_.of(tensor); });
}

void ShardedOptimizer::run_phase(Phase phase, LeafSource& leaves) {
  require_fp_environment("reference rank " + std::to_string(setup_.comm->rank()));
  ZP_CHECK(loaded_, ErrorCode::invalid_argument,
           "phase " + std::string(name(phase)) + " runs before load_state",
           "there is nothing to optimise yet", "call load_state once before the first step");
  const bool must_stop = found_inf_ != 0 && setup_.on_nonfinite != OnNonfinite::propagate;
  ZP_CHECK(!(must_stop && skipped_on_overflow(phase)), ErrorCode::invalid_argument,
           "phase " + std::string(name(phase)) + " runs on a step with an overflow",
           "no bit of the state may change (R6)", "go on with prepare of the next step");
  switch (phase) {
    case Phase::prepare:
      return prepare(leaves);
    case Phase::reduce:
      return reduce(leaves);
    case Phase::unscale:
      return unscale();
    case Phase::norm:
      return norm();
    case Phase::clip:
      return clip();
    case Phase::update:
      return update();
    case Phase::cast:
      return cast();
    case Phase::gather:
      return gather();
  }
}

void ShardedOptimizer::prepare(const LeafSource& leaves) {
  found_inf_ = 0;
  const std::int64_t divisor = divisor_of_step(setup_, leaves);
  if (counts_.per_tensor) has_grad_ = tensors_with_grad(setup_, leaves);
  const std::vector<StepScalars> scalars = scalars_of_step(setup_.hyper, setup_.groups, counts_,
                                                           scaler_.log2_scale, divisor, setup_.micro_batches);
  require_same_scalars(setup_, scalars);
  std::ranges::copy(scalars, scalars_.begin());  // in place, because taps may hold a view
}

void ShardedOptimizer::reduce(LeafSource& leaves) {
  std::vector<float> owned =
      setup_.stage == 2 ? reduce_strided(setup_, leaves) : reduce_contiguous(setup_, leaves);
  if (setup_.stage == 0) {
    gather_shards(setup_, array_view(owned), array_view(grad_sum_));  // every rank needs all of G (R11)
  } else {
    std::ranges::copy(owned, grad_sum_.begin());
  }
}

void ShardedOptimizer::unscale() {
  bool found = false;
  for (const Piece& piece : pieces_) {
    const bool found_here =
        reference::unscale({}, scalars_of(piece).inv_scale, at(grad_sum_, piece), at(unscaled_grad_, piece));
    found = found || found_here;
  }
  // Stage 0 would not have to ask, but then one broken rank would skip alone.
  std::uint64_t flag = found ? 1 : 0;
  setup_.comm->all_reduce({&flag, 1}, IntegerReduce::bitwise_or);
  found_inf_ = flag != 0 ? 1 : 0;
  // All ranks have the same flag here, so all of them throw, and none has changed anything that survives a
  // step.
  ZP_CHECK(flag == 0 || setup_.on_nonfinite != OnNonfinite::error, ErrorCode::nonfinite,
           "step " + std::to_string(applied_steps() + 1) + " has a gradient that is not finite",
           "the run was told to stop then (on_nonfinite = error)",
           "look for the cause in the leaves, lower the loss scale, or use on_nonfinite = skip");

  scaler_ = loss_scaler_update(setup_.scaler, scaler_, found_inf_ != 0);
  if (skipped()) {
    grad_norm_ = std::numeric_limits<double>::quiet_NaN();
    clip_coef_ = std::numeric_limits<float>::quiet_NaN();
  }
}

void ShardedOptimizer::norm() {
  const NormForm form = setup_.hyper.norm;
  norm_ = PartialNorm{};
  for (const Piece& piece : pieces_) accumulate(form, at(unscaled_grad_, piece), norm_);
  grad_norm_normalise(norm_.limbs);
  if (setup_.stage != 0) {  // in stage 0 every rank has counted everything
    auto limbs = std::bit_cast<std::array<std::uint64_t, 23>>(norm_.limbs);
    std::uint64_t amax = norm_.amax;
    if (form == NormForm::inf) {
      setup_.comm->all_reduce({&amax, 1}, IntegerReduce::max);
    } else {
      setup_.comm->all_reduce(limbs, IntegerReduce::sum);
    }
    norm_ = {std::bit_cast<NormLimbs>(limbs), static_cast<std::uint32_t>(amax)};
    grad_norm_normalise(norm_.limbs);
  }
  grad_norm_ = finish(form, norm_);
}

void ShardedOptimizer::clip() {
  clip_coef_ = clip_coef(grad_norm_, setup_.hyper.max_norm);
  for (const Piece& piece : pieces_) {
    reference::clip({}, clip_coef_, at(unscaled_grad_, piece), at(grad_, piece));
    if (setup_.hyper.clip_value) {
      clip_value({}, static_cast<float>(*setup_.hyper.clip_value), at(grad_, piece));
    }
  }
}

void ShardedOptimizer::update() {
  for (const Piece& piece : pieces_) {
    const bool rests = counts_.per_tensor && !has_grad_[static_cast<std::size_t>(piece.tensor)];
    if (!rests) update_piece(setup_.hyper, scalars_of(piece), piece, grad_, master_, state_);
  }
  counts_.count_step(has_grad_);
}

void ShardedOptimizer::cast() { round(param_shard_, master_, pieces_); }

void ShardedOptimizer::gather() {
  if (setup_.stage == 0) {
    unpack(pack(param_shard_.view(), ranges_), ranges_, param_full_.view());  // already everything: a copy
  } else {
    gather_shards(setup_, param_shard_.view(), param_full_.view());
  }
}

}  // namespace zeroproof::reference
