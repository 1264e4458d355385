#include "reference/sharded_optimizer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "common/base/error.hpp"
#include "common/base/fpenv.hpp"
#include "reference/adam.hpp"
#include "reference/clip.hpp"
#include "reference/grad_norm.hpp"
#include "reference/grad_scale.hpp"
#include "reference/gradient_exchange.hpp"
#include "reference/loss_scaler.hpp"
#include "reference/step_scalars.hpp"

namespace zeroproof::reference {

ShardedOptimizer::ShardedOptimizer(const OptimizerSetup& setup) : setup_(setup) {
  const std::int64_t padded_numel = setup.layout->padded_numel();
  ranges_ =
      setup.stage == 0 ? std::vector<FlatRange>{{0, padded_numel}} : setup.shards->shard(setup.comm->rank());
  pieces_ = setup.layout->pieces(ranges_);

  scaler_ = loss_scaler_init(setup.scaler);
  // The result is not needed yet, but a hyper-parameter out of range should not wait for the first step.
  step_scalars(setup.hyper, 1, scaler_.log2_scale, setup.micro_batches);

  const std::int64_t numel = setup.stage == 0 ? padded_numel : setup.shards->shard_numel(setup.comm->rank());
  for (std::vector<float>* values :
       {&grad_sum_, &unscaled_grad_, &grad_, &exp_avg_, &exp_avg_sq_, &master_}) {
    *values = nan_buffer(numel);
  }
  param_shard_ = ParamBuffer(setup.param_dtype, numel);
  param_full_ = ParamBuffer(setup.param_dtype, padded_numel);
}

void ShardedOptimizer::load_state(const FullState& state) {
  const std::int64_t padded_numel = setup_.layout->padded_numel();
  for (const Span<const float> view : {state.master, state.exp_avg, state.exp_avg_sq}) {
    ZP_CHECK(numel(view) == padded_numel, ErrorCode::invalid_argument,
             "a loaded state has " + std::to_string(view.size()) + " elements",
             "the layout has " + std::to_string(padded_numel) + " with padding", "pass [padded_numel]");
  }
  ZP_CHECK(state.applied_steps >= 0, ErrorCode::invalid_argument,
           "applied_steps is " + std::to_string(state.applied_steps), "it counts steps", "pass 0 or more");

  for (const Piece& piece : pieces_) {
    const auto load = [&](Span<const float> full, std::vector<float>& shard) {
      const std::size_t begin = static_cast<std::size_t>(piece.global_begin);
      std::ranges::copy(full.subspan(begin, static_cast<std::size_t>(piece.numel)), at(shard, piece).begin());
    };
    load(state.master, master_);
    load(state.exp_avg, exp_avg_);
    load(state.exp_avg_sq, exp_avg_sq_);
  }
  applied_steps_ = static_cast<std::uint64_t>(state.applied_steps);
  scaler_ = state.scaler;
  found_inf_ = 0;
  param_shard_.round_from(master_, pieces_);
  // The whole master is at hand, so nobody has to be asked: loading is not a collective call.
  param_full_.round_from(state.master, setup_.layout->pieces({{0, padded_numel}}));
  loaded_ = true;
}

void ShardedOptimizer::run_phase(Phase phase, LeafSource& leaves) {
  require_fp_environment("reference rank " + std::to_string(setup_.comm->rank()));
  ZP_CHECK(loaded_, ErrorCode::invalid_argument,
           "phase " + std::string(name(phase)) + " runs before load_state",
           "there is nothing to optimise yet", "call load_state once before the first step");
  ZP_CHECK(!(skipped() && skipped_on_overflow(phase)), ErrorCode::invalid_argument,
           "phase " + std::string(name(phase)) + " runs on a step with an overflow",
           "no bit of the state may change (R6)", "go on with prepare of the next step");
  switch (phase) {
    case Phase::prepare:
      return prepare();
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

void ShardedOptimizer::prepare() {
  found_inf_ = 0;
  scalars_ = step_scalars(setup_.hyper, applied_steps() + 1, scaler_.log2_scale, setup_.micro_batches);
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
        reference::unscale({}, scalars_.inv_scale, at(grad_sum_, piece), at(unscaled_grad_, piece));
    found = found || found_here;
  }
  // Stage 0 would not have to ask, but then one broken rank would skip alone.
  std::uint64_t flag = found ? 1 : 0;
  setup_.comm->all_reduce({&flag, 1}, IntegerReduce::bitwise_or);
  found_inf_ = flag != 0 ? 1 : 0;

  scaler_ = loss_scaler_update(setup_.scaler, scaler_, skipped());
  if (skipped()) {
    grad_norm_ = std::numeric_limits<double>::quiet_NaN();
    clip_coef_ = std::numeric_limits<float>::quiet_NaN();
  }
}

void ShardedOptimizer::norm() {
  limbs_ = NormLimbs{};
  for (const Piece& piece : pieces_) grad_norm_accumulate({}, at(unscaled_grad_, piece), limbs_);
  grad_norm_normalise(limbs_);
  if (setup_.stage != 0) {  // in stage 0 every rank has counted everything
    auto words = std::bit_cast<std::array<std::uint64_t, 23>>(limbs_);
    setup_.comm->all_reduce(words, IntegerReduce::sum);
    limbs_ = std::bit_cast<NormLimbs>(words);
    grad_norm_normalise(limbs_);
  }
  grad_norm_ = grad_norm_finish(limbs_);
}

void ShardedOptimizer::clip() {
  clip_coef_ = clip_coef(grad_norm_, setup_.hyper.max_norm);
  for (const Piece& piece : pieces_) {
    reference::clip({}, clip_coef_, at(unscaled_grad_, piece), at(grad_, piece));
  }
}

void ShardedOptimizer::update() {
  for (const Piece& piece : pieces_) {
    adamw_update({}, scalars_, at(grad_, piece), at(master_, piece), at(exp_avg_, piece),
                 at(exp_avg_sq_, piece));
  }
  applied_steps_ += 1;
}

void ShardedOptimizer::cast() { param_shard_.round_from(master_, pieces_); }

void ShardedOptimizer::gather() {
  if (setup_.stage == 0) {
    unpack(pack(param_shard_.view(), ranges_), ranges_, param_full_.view());  // already everything: a copy
  } else {
    gather_shards(setup_, param_shard_.view(), param_full_.view());
  }
}

}  // namespace zeroproof::reference
