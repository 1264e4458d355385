#include "reference/zero/sharded/sharded_optimizer.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "common/base/error.hpp"
#include "common/base/fpenv.hpp"
#include "common/comm/agreement.hpp"
#include "common/step/scaled_params.hpp"
#include "common/step/setup_agreement.hpp"
#include "reference/blocks.hpp"
#include "reference/operations.hpp"
#include "reference/zero/sharded/binned_exchange.hpp"
#include "reference/zero/sharded/gradient_exchange.hpp"
#include "reference/zero/sharded/messages.hpp"
#include "reference/zero/sharded/micro_batches.hpp"
#include "reference/zero/sharded/placement.hpp"
#include "reference/zero/sharded/ranks.hpp"

namespace zeroproof::reference {

ShardedOptimizer::ShardedOptimizer(const OptimizerSetup& setup) : setup_(setup) {
  const std::int64_t padded_numel = setup.layout->padded_numel();
  ranges_ = setup.stage == 0 ? std::vector<FlatRange>{{0, padded_numel}}
                             : setup.shards->shard(setup.comm->rank());
  pieces_ = setup.layout->pieces(ranges_);
  full_ranges_ = setup.stage == 3 ? persistent_ranges(setup) : FlatRanges{{0, padded_numel}};

  scaler_ = loss_scaler_init(setup.scaler);
  // The values are not needed yet; an out-of-range hyper-parameter must fail in the constructor,
  // not in the first step.
  const bool by_tokens = setup.loss_reduction == LossReduction::tokens;
  counts_.per_tensor = setup.missing_grad == MissingGrad::skip;
  counts_.tensor_steps.resize(counts_.per_tensor ? setup.layout->tensors().size() : 0);
  has_grad_.resize(counts_.tensor_steps.size(), true);
  scalars_ = scalars_of_step(setup.hyper, setup.groups, counts_, scaler_.log2_scale,
                             by_tokens ? 1 : setup.micro_batches, setup.micro_batches);

  const auto clip_groups = static_cast<std::size_t>(setup.clip_groups.count());
  norms_ = PartialNorms(setup.clip_groups.count());
  grad_norm_.assign(clip_groups, std::numeric_limits<double>::quiet_NaN());
  clip_coef_.assign(clip_groups, std::numeric_limits<float>::quiet_NaN());
  trust_ratio_.assign(setup.layout->tensors().size(), 1);

  const std::int64_t numel = numel_of(ranges_);
  for (std::vector<float>* values : {&grad_sum_, &unscaled_grad_, &grad_, &master_, &orthogonal_}) {
    *values = nan_buffer(numel);
  }
  state_ = make_rule_state(setup.hyper, numel);
  stored_ = StoredState(setup, numel, blocks_with_elements(undistributed(setup, pieces_)));
  matrices_ = MatrixUpdate(setup, setup.placement, setup.matrices);
  if (setup.state_formats.master == MasterFormat::bf16) bf16_master_.emplace(DType::bf16, numel);
  param_shard_ = ParamBuffer(setup.param_dtype, numel);
  param_full_ = ParamBuffer(setup.param_dtype, numel_of(full_ranges_));
  if (has_scales(setup.param_dtype)) init_scales();
}

void ShardedOptimizer::load_state(const FullState& state) {
  const std::int64_t padded_numel = setup_.layout->padded_numel();
  check_loaded(state, setup_.hyper, padded_numel);
  if (scales_.exist())
    has_loaded_scales(state, setup_, scales_.blocks());  // checks, before anything changes
  // In place, because observers may hold views.
  const StepCounts counts = loaded_counts(state, setup_.missing_grad, *setup_.layout);
  require_same_setup(setup_, state);
  counts_.applied_steps = counts.applied_steps;
  std::ranges::copy(counts.tensor_steps, counts_.tensor_steps.begin());

  const auto load = [&](Span<const float> loaded, std::vector<float>& shard) {
    for (const Piece& piece : pieces_) {
      std::ranges::copy(part(loaded, piece.global_begin, piece.numel), at(shard, piece).begin());
    }
  };
  load(state.master, master_);
  for (auto& [slot, shard] : state_) load(state.slots[slot], shard);
  scaler_ = state.scaler;
  found_inf_ = 0;
  std::ranges::fill(trust_ratio_, 1.0F);  // no tensor is updated yet
  for (const Piece& piece : pieces_) std::ranges::fill(at(orthogonal_, piece), 0.0F);
  stored_.load(state, undistributed(setup_, pieces_), state_, [&](BlockAmax& amax) { join(amax); });
  if (bf16_master_) keep_master();
  if (scales_.exist()) {
    load_with_scales(state);
    param_version_ += 1;
  } else {
    cast();
    round_everything(state.master);
  }
  loaded_ = true;
}

void ShardedOptimizer::round_everything(Span<const float> master) {
  // Every rank has the whole master here, so no communication is needed.
  const std::vector<Piece> pieces = setup_.layout->pieces(full_ranges_);
  round(param_full_, values_of(master, pieces), pieces);
}

std::vector<float> ShardedOptimizer::values_of(Span<const float> master,
                                               const std::vector<Piece>& pieces) const {
  std::vector<float> values = nan_buffer(numel_of(full_ranges_));
  for (const Piece& piece : pieces) {
    std::ranges::copy(part(master, piece.global_begin, piece.numel), at(values, piece).begin());
  }
  return values;
}

void ShardedOptimizer::round(ParamBuffer& param, Span<const float> master,
                             const std::vector<Piece>& pieces) const {
  if (setup_.param_rounding == ParamRounding::nearest) return param.round_from(master, pieces);
  param.round_at_random(master, undistributed(setup_, pieces), setup_.seed,
                        [&](std::int64_t tensor) { return counts_.of(tensor); });
}

void ShardedOptimizer::run_phase(Phase phase, GradSource& leaves) {
  require_fp_environment("reference rank " + std::to_string(setup_.comm->rank()));
  ZP_CHECK(loaded_, ErrorCode::invalid_argument,
           "phase " + std::string(name(phase)) + " runs before load_state", "there is no state yet",
           "call load_state once before the first step");
  const bool must_stop = found_inf_ != 0 && setup_.on_nonfinite != OnNonfinite::propagate;
  ZP_CHECK(!(must_stop && skipped_on_overflow(phase)), ErrorCode::invalid_argument,
           "phase " + std::string(name(phase)) + " runs on a step with an overflow",
           "no bit of the state may change (R6)", "continue with prepare of the next step");
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

void ShardedOptimizer::prepare(const GradSource& leaves) {
  found_inf_ = 0;
  const std::int64_t divisor = divisor_of_step(setup_, leaves);
  if (counts_.per_tensor) has_grad_ = tensors_with_grad(setup_, leaves);
  const std::vector<StepScalars> scalars = scalars_of_step(
      setup_.hyper, setup_.groups, counts_, scaler_.log2_scale, divisor, setup_.micro_batches);
  require_agreement({setup_.tp, setup_.comm, setup_.replicas},
                    std::as_bytes(Span<const StepScalars>(scalars)), "the step scalars",
                    "every rank must apply the same step (R5)",
                    "give all ranks the same hyper-parameters, groups, loss scale and step counts");
  std::ranges::copy(scalars, scalars_.begin());  // in place, because observers may hold a view
}

ParamSource ShardedOptimizer::param_source() const {
  return {{param_shard_.view(), ranges_},
          {param_full_.view(), full_ranges_},
          &param_version_,
          scales_.scale_inv};
}

void ShardedOptimizer::reduce(GradSource& leaves) {
  MicroBatchPass pass(setup_, leaves, param_source());
  const auto reduce_over_ranks = [&] {
    if (setup_.grad_sum == GradSum::binned) return reduce_binned(setup_, pass);
    return setup_.stage >= 2 ? reduce_by_micro_step(setup_, pass)
                             : reduce_at_boundary(setup_, pass);
  };
  const std::vector<float> owned = reduce_over_ranks();
  if (setup_.stage == 0) {  // every rank needs all of G (R11)
    const RangedView shard{array_view(owned), setup_.shards->shard(setup_.comm->rank())};
    gather_from_owners(setup_, shard, ranges_, {array_view(grad_sum_), ranges_});
  } else {
    std::ranges::copy(owned, grad_sum_.begin());
  }
}

void ShardedOptimizer::unscale() {
  bool found = false;
  for (const Piece& piece : pieces_) {
    const bool found_here = reference::unscale({}, scalars_of(piece.tensor).inv_scale,
                                               at(grad_sum_, piece), at(unscaled_grad_, piece));
    found = found || found_here;
  }
  // Stage 0 does not need the reduction, but without it a rank with a wrong value would skip alone.
  std::uint64_t flag = found ? 1 : 0;
  all_reduce({setup_.comm, setup_.replicas, setup_.tp}, {&flag, 1}, IntegerReduce::bitwise_or);
  found_inf_ = flag != 0 ? 1 : 0;
  // All ranks have the same flag here, so all of them throw, and none has changed state that
  // survives a step.
  ZP_CHECK(flag == 0 || setup_.on_nonfinite != OnNonfinite::error, ErrorCode::nonfinite,
           "step " + std::to_string(applied_steps() + 1) + " has a gradient that is not finite",
           "on_nonfinite is error",
           "find the cause in the gradients, lower the loss scale, or use on_nonfinite = skip");

  scaler_ = loss_scaler_update(setup_.scaler, scaler_, found_inf_ != 0);
  if (skipped()) {
    std::ranges::fill(grad_norm_, std::numeric_limits<double>::quiet_NaN());
    std::ranges::fill(clip_coef_, std::numeric_limits<float>::quiet_NaN());
  }
}

bool ShardedOptimizer::is_counted(const Piece& piece) const {
  return rank_in(setup_.tp) == 0 || !is_tp_replicated(setup_, piece.tensor);
}

PartialNorms ShardedOptimizer::own_norms() const {
  PartialNorms norms(setup_.clip_groups.count());
  for (const Piece& piece : pieces_) {
    if (is_counted(piece)) {
      norms.accumulate(setup_.hyper.norm, clip_group_of(piece),
                       at(Span<const float>(unscaled_grad_), piece));
    }
  }
  norms.normalise();
  return norms;
}

void ShardedOptimizer::norm() {
  const PartialNorms own = own_norms();
  std::ranges::copy(own.limbs,
                    norms_.limbs.begin());  // in place, because observers may hold a view
  std::ranges::copy(own.amax, norms_.amax.begin());
  if (setup_.hyper.norm == NormForm::inf) {
    std::vector<std::uint64_t> amax(norms_.amax.begin(), norms_.amax.end());
    all_reduce({sharding_ranks(), setup_.tp}, amax, IntegerReduce::max);
    std::ranges::transform(amax, norms_.amax.begin(),
                           [](std::uint64_t word) { return static_cast<std::uint32_t>(word); });
  } else {
    add_over({sharding_ranks(), setup_.tp}, norms_.limbs);  // of all groups in one reduction
    norms_.normalise();
  }
  std::ranges::copy(norms_.finish(setup_.hyper.norm), grad_norm_.begin());
}

void ShardedOptimizer::clip() {
  const std::vector<std::optional<double>> limits =
      max_norms_of(setup_.clip_groups, setup_.hyper.max_norm);
  for (std::size_t group = 0; group < limits.size(); ++group) {
    clip_coef_[group] = clip_coef(grad_norm_[group], limits[group]);
  }
  for (const Piece& piece : pieces_) {
    reference::clip({}, clip_coef_[clip_group_of(piece)], at(unscaled_grad_, piece),
                    at(grad_, piece));
    if (setup_.hyper.clip_value) {
      clip_value({}, static_cast<float>(*setup_.hyper.clip_value), at(grad_, piece));
    }
  }
}

void ShardedOptimizer::compute_trust_ratios(const std::vector<Piece>& used) {
  if (!traits_of(setup_.hyper.rule).trust_ratio) return;
  std::vector<TrustNorms> norms(trust_ratio_.size());
  for (const Piece& piece : used) {
    if (is_counted(piece))
      add_trust_norms(setup_.hyper, scalars_of(piece.tensor), piece, grad_, master_, state_,
                      norms[piece.tensor]);
  }
  for (TrustNorms& of_tensor : norms) {
    grad_norm_normalise(of_tensor.weight);
    grad_norm_normalise(of_tensor.update);
  }
  add_over({sharding_ranks(), setup_.tp}, norms);  // of all tensors in one reduction (R6)
  // Every rank has the ratios of all tensors, also of those it has no elements of.
  for (std::size_t tensor = 0; tensor < norms.size(); ++tensor)
    trust_ratio_[tensor] =
        lamb_trust_ratio(scalars_of(static_cast<std::int64_t>(tensor)), norms[tensor]);
}

// A matrix on one rank of many (R28): Newton-Schulz of the ranks' parts would be another
// result [Muon:slice].
// W = 3 ranks, the 2 x 5 matrix E of a tensor:
//
//                    rank 0            rank 1            rank 2
//   momentum         e0 e1 e2          e3 e4 .. e9       -              of its own elements
//   joined           e0 .. e9          the same          the same       bits
//   Newton-Schulz    o0 .. o9          the same          -              so are these
//   update           o0 o1 o2          o3 o4 .. o9       -              of its own elements

void ShardedOptimizer::update_matrices() {
  matrices_.run(
      pieces_, [this](std::int64_t tensor) { return !counts_.per_tensor || has_grad_[tensor]; },
      [this](std::int64_t tensor) -> const StepScalars& { return scalars_of(tensor); },
      {grad_, master_, state_, orthogonal_},
      [this](std::int64_t tensor, Span<std::uint64_t> bits) {
        Communicator* const tp = is_tp_replicated(setup_, tensor) ? nullptr : setup_.tp;
        all_reduce({sharding_ranks(), tp}, bits, IntegerReduce::bitwise_or);
      });
}

void ShardedOptimizer::update() {
  std::vector<Piece> used;
  std::ranges::copy_if(pieces_, std::back_inserter(used), [&](const Piece& piece) {
    return !counts_.per_tensor || has_grad_[piece.tensor];
  });
  const std::vector<Piece> used_runs = undistributed(setup_, used);
  stored_.read(used_runs, state_);
  if (bf16_master_) bf16_master_->widen_into(master_, pieces_);
  compute_trust_ratios(used);
  update_matrices();
  for (const Piece& piece : used) {
    if (matrices_.contains(piece.tensor)) continue;
    update_piece(setup_.hyper, scalars_of(piece.tensor), trust_ratio_[piece.tensor], piece, grad_,
                 master_, state_);
  }
  stored_.store(used_runs, state_, [&](BlockAmax& amax) { join(amax); });
  counts_.count_step(has_grad_);
  if (bf16_master_) keep_master();
}

void ShardedOptimizer::join(BlockAmax& amax) const {
  std::uint64_t count = amax.empty() ? 0 : static_cast<std::uint64_t>(amax.rbegin()->first) + 1;
  all_reduce({setup_.comm, setup_.tp}, {&count, 1}, IntegerReduce::max);
  std::vector<std::uint64_t> words(
      count);  // of every block of the undistributed model, on all ranks
  for (const auto& [block, largest] : amax) words[block] = largest;
  all_reduce({setup_.comm, setup_.tp}, words, IntegerReduce::max);
  for (auto& [block, largest] : amax) largest = static_cast<std::uint32_t>(words[block]);
}

void ShardedOptimizer::keep_master() {
  round(*bf16_master_, master_, pieces_);
  std::ranges::fill(master_,
                    std::numeric_limits<float>::quiet_NaN());  // reads of it become visible
}

void ShardedOptimizer::cast() {
  if (scales_.exist()) {
    cast_with_scales();
  } else if (bf16_master_) {
    param_shard_.copy_from(*bf16_master_);
  } else {
    round(param_shard_, master_, pieces_);
  }
  param_version_ += 1;
}

void ShardedOptimizer::gather() {
  gather_codes(param_shard_.view(), param_full_.view());
  if (scales_.exist()) make_columns();
}

void ShardedOptimizer::gather_codes(const TensorView& shard, const TensorView& full) {
  const RangedView to{full, full_ranges_};
  if (setup_.stage == 0) {
    unpack(pack({shard, ranges_}, ranges_), ranges_, to);  // all elements are here: a copy
  } else {
    gather_from_owners(setup_, {shard, ranges_}, full_ranges_, to);
  }
}

// 8-bit parameters on one rank of many (R24) [SCALE:step].
// W = 3 ranks, a tensor with the blocks A and B:
//
//                    rank 0            rank 1            rank 2
//   master           A.                .A BB             -              blocks may be split
//   amax of its own  a0 0              a1 b1             0 0            integers
//   maximum          max(a0, a1) b1    the same          the same       so scales are the same
//   codes            A.                .A BB             -
//   gather           A. .A BB          the same          the same       bytes
//
// With blocks of one row, blocks of one column have codes of every element too: the same again for
// the columns [SCALE:columns].

void ShardedOptimizer::init_scales() {
  scales_ = ParamScales(setup_, blocks_of(setup_));
  if (setup_.scaling.columnwise)
    param_columns_ = ParamBuffer(setup_.param_dtype, numel_of(full_ranges_));
  if (!has_own_columns(setup_.scaling)) return;
  column_scales_ = ParamScales(setup_, column_blocks_of(setup_));
  column_shard_ = ParamBuffer(setup_.param_dtype, numel_of(ranges_));
}

void ShardedOptimizer::make_scales(ParamScales& scales, const TakesPart& takes_part) {
  scales.collect(master_, pieces_, takes_part);
  // Several ranks may share a block, and several TP ranks a tensor; instances have the same
  // masters.
  std::vector<std::uint64_t> amax(scales.amax.begin(), scales.amax.end());
  all_reduce({setup_.comm, setup_.tp}, amax, IntegerReduce::max);
  std::ranges::transform(amax, scales.amax.begin(),
                         [](std::uint64_t word) { return static_cast<std::uint32_t>(word); });
  scales.make(takes_part);
}

void ShardedOptimizer::load_with_scales(const FullState& state) {
  const TakesPart all = [](std::int64_t) { return true; };
  const bool beginning = !has_loaded_scales(state, setup_, scales_.blocks());
  if (beginning) {
    scales_.begin();
    make_scales(scales_, all);
  } else {
    scales_.load(state);
  }
  scales_.cast(master_, pieces_, all, param_shard_.view());
  const std::vector<Piece> pieces = setup_.layout->pieces(full_ranges_);
  scales_.cast(values_of(state.master, pieces), pieces, all, param_full_.view());
  if (beginning && setup_.scaling.initial_master == InitialMaster::dequantised) {
    scales_.dequantize(param_shard_.view(), pieces_, master_);
  }
  cast_columns(all);
  make_columns();
}

void ShardedOptimizer::cast_with_scales() {
  // A tensor without a gradient keeps codes and scales, because they belong together.
  const TakesPart used = [this](std::int64_t tensor) {
    return !counts_.per_tensor || has_grad_[tensor];
  };
  scales_.move_histories(used);
  make_scales(scales_, used);
  scales_.cast(master_, pieces_, used, param_shard_.view());
  cast_columns(used);
}

void ShardedOptimizer::cast_columns(const TakesPart& takes_part) {
  if (!column_scales_.exist()) return;
  make_scales(column_scales_, takes_part);
  column_scales_.cast(master_, pieces_, takes_part, column_shard_.view());
}

void ShardedOptimizer::make_columns() {
  if (!setup_.scaling.columnwise) return;
  if (column_scales_.exist()) return gather_codes(column_shard_.view(), param_columns_.view());
  transpose_codes(*setup_.layout, setup_.layout->pieces(full_ranges_), param_full_.view(),
                  param_columns_.view());
}

// The exposed buffers of a rank, which observers may overwrite.

namespace {

static_assert(sizeof(StepScalars) == num_step_scalar_words * sizeof(std::uint32_t) &&
                  sizeof(NormLimbs) == 23 * sizeof(std::uint64_t) &&
                  sizeof(TrustNorms) == 2 * sizeof(NormLimbs) &&
                  sizeof(LossScalerState) == 3 * sizeof(std::int32_t),
              "these structs are exposed or reduced as words, without gaps");

/// The words of a struct of 32- or 64-bit values, for an observer.
template <class T>
TensorView scalar_view(T& value, DType dtype) {
  return {&value, dtype, static_cast<std::int64_t>(sizeof(T)) / num_bytes(dtype)};
}

/// The buffers that a phase writes if they exist, in the order in which it writes them.
std::vector<BufferId> written_by(Phase phase) {
  switch (phase) {
    case Phase::prepare:
      return {BufferId::step_scalars};
    case Phase::reduce:
      return {BufferId::grad_sum};
    case Phase::unscale:
      return {BufferId::unscaled_grad, BufferId::found_inf, BufferId::loss_scaler};
    case Phase::norm:
      return {BufferId::norm_limbs, BufferId::grad_amax, BufferId::grad_norm};
    case Phase::clip:
      return {BufferId::clip_coef, BufferId::grad};
    case Phase::update: {
      std::vector<BufferId> ids = {BufferId::trust_ratio};
      for (const StateSlot slot : all_state_slots) ids.push_back(buffer_of(slot));
      for (const StateSlot slot : all_state_slots) ids.push_back(scales_of(slot));
      ids.insert(ids.end(), {BufferId::orthogonal, BufferId::master, BufferId::tensor_steps,
                             BufferId::applied_steps});
      return ids;
    }
    case Phase::cast:
      return {BufferId::amax,         BufferId::amax_history,
              BufferId::param_scale,  BufferId::param_scale_inv,
              BufferId::param_shard,  BufferId::column_amax,
              BufferId::column_scale, BufferId::column_scale_inv,
              BufferId::column_shard};
    case Phase::gather:
      return {BufferId::param_full, BufferId::param_columns};
  }
  return {};
}

}  // namespace

bool ShardedOptimizer::exists(BufferId id) const {
  if (const std::optional<StateSlot> slot = slot_of(id)) return state_.contains(*slot);
  if (const std::optional<StateSlot> slot = slot_of_scales(id)) return stored_.has_scales(*slot);
  switch (id) {
    case BufferId::norm_limbs:
      return setup_.hyper.norm != NormForm::inf;
    case BufferId::grad_amax:
      return setup_.hyper.norm == NormForm::inf;
    case BufferId::trust_ratio:
      return traits_of(setup_.hyper.rule).trust_ratio;
    case BufferId::orthogonal:
      return traits_of(setup_.hyper.rule).matrices;
    case BufferId::tensor_steps:
      return counts_.per_tensor;
    case BufferId::param_full:
      return setup_.stage != 3 || !full_ranges_.empty();
    case BufferId::amax:
    case BufferId::param_scale:
    case BufferId::param_scale_inv:
      return scales_.exist();
    case BufferId::amax_history:
      return !scales_.amax_history.empty();
    case BufferId::param_columns:
      return scales_.exist() && setup_.scaling.columnwise && !full_ranges_.empty();
    case BufferId::column_amax:
    case BufferId::column_scale:
    case BufferId::column_scale_inv:
    case BufferId::column_shard:
      return column_scales_.exist();
    default:
      return true;
  }
}

ExposedBuffer ShardedOptimizer::buffer(BufferId id) {
  if (const std::optional<StateSlot> slot = slot_of(id)) {
    const bool coded = stored_.has(*slot);
    return {id, coded ? stored_[*slot].codes() : array_view(state_.at(*slot)), ranges_};
  }
  if (const std::optional<StateSlot> slot = slot_of_scales(id)) return stored_.scales(*slot);
  switch (id) {
    case BufferId::step_scalars:
      return {id, words_view(scalars_, DType::u32), {}};
    case BufferId::applied_steps:
      return {id, scalar_view(counts_.applied_steps, DType::u64), {}};
    case BufferId::tensor_steps:
      return {id, words_view(counts_.tensor_steps, DType::u64), {}};
    case BufferId::found_inf:
      return {id, scalar_view(found_inf_, DType::u32), {}};
    case BufferId::loss_scaler:
      return {id, scalar_view(scaler_, DType::u32), {}};
    case BufferId::norm_limbs:
      return {id, words_view(norms_.limbs, DType::u64), {}};
    case BufferId::grad_amax:
      return {id, words_view(norms_.amax, DType::u32), {}};
    case BufferId::grad_norm:
      return {id, words_view(grad_norm_, DType::fp64), {}};
    case BufferId::clip_coef:
      return {id, words_view(clip_coef_, DType::fp32), {}};
    case BufferId::trust_ratio:
      return {id, array_view(trust_ratio_), {}};
    case BufferId::grad_sum:
      return {id, array_view(grad_sum_), ranges_};
    case BufferId::unscaled_grad:
      return {id, array_view(unscaled_grad_), ranges_};
    case BufferId::grad:
      return {id, array_view(grad_), ranges_};
    case BufferId::master:
      return {id, bf16_master_ ? bf16_master_->view() : array_view(master_), ranges_};
    case BufferId::orthogonal:
      return {id, array_view(orthogonal_), ranges_};
    case BufferId::param_shard:
      return {id, param_shard_.view(), ranges_};
    case BufferId::param_full:
      return {id, param_full_.view(), full_ranges_};
    case BufferId::amax:
      return {id, words_view(scales_.amax, DType::u32), {}};
    case BufferId::amax_history:
      return {id, words_view(scales_.amax_history, DType::u32), {}};
    case BufferId::param_scale:
      return {id, array_view(scales_.scale), {}};
    case BufferId::param_scale_inv:
      return {id, array_view(scales_.scale_inv), {}};
    case BufferId::param_columns:
      return {id, param_columns_.view(), full_ranges_};
    case BufferId::column_amax:
      return {id, words_view(column_scales_.amax, DType::u32), {}};
    case BufferId::column_scale:
      return {id, array_view(column_scales_.scale), {}};
    case BufferId::column_scale_inv:
      return {id, array_view(column_scales_.scale_inv), {}};
    case BufferId::column_shard:
      return {id, column_shard_.view(), ranges_};
    default:
      break;
  }
  fail(ErrorCode::internal, "a buffer id has no buffer", "observers use named buffers only",
       "report this as a defect");
}

std::vector<ExposedBuffer> ShardedOptimizer::exposed(Phase phase) {
  std::vector<ExposedBuffer> buffers;
  for (const BufferId id : written_by(phase)) {
    if (exists(id)) buffers.push_back(buffer(id));
  }
  return buffers;
}

std::vector<ExposedBuffer> ShardedOptimizer::storage() {
  std::vector<ExposedBuffer> buffers;
  for (int index = 0; index < num_buffer_ids; ++index) {
    const BufferId id = static_cast<BufferId>(index);
    if (exists(id)) buffers.push_back(buffer(id));
  }
  return buffers;
}

}  // namespace zeroproof::reference
