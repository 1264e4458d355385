// What taps see of a rank, and may overwrite.

#include "common/base/error.hpp"
#include "reference/zero/sharded_optimizer.hpp"

namespace zeroproof::reference {
namespace {

static_assert(sizeof(StepScalars) == num_step_scalar_words * sizeof(std::uint32_t) &&
                  sizeof(NormLimbs) == 23 * sizeof(std::uint64_t) &&
                  sizeof(LossScalerState) == 3 * sizeof(std::int32_t),
              "these structs are exposed as words, without gaps");

/// The words of a struct of 32- or 64-bit values, as a tap sees them.
template <class T>
TensorView scalar_view(T& value, DType dtype) {
  return {&value, dtype, static_cast<std::int64_t>(sizeof(T)) / num_bytes(dtype)};
}

/// Which buffers a phase writes if they exist, in the order in which it does.
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
    case Phase::update:
      return {BufferId::exp_avg,
              BufferId::exp_avg_sq,
              BufferId::max_exp_avg_sq,
              BufferId::momentum_buffer,
              BufferId::exp_avg_scale,
              BufferId::exp_avg_sq_scale,
              BufferId::max_exp_avg_sq_scale,
              BufferId::momentum_buffer_scale,
              BufferId::master,
              BufferId::tensor_steps,
              BufferId::applied_steps};
    case Phase::cast:
      return {
          BufferId::amax,        BufferId::amax_history, BufferId::param_scale,  BufferId::param_scale_inv,
          BufferId::param_shard, BufferId::column_amax,  BufferId::column_scale, BufferId::column_scale_inv,
          BufferId::column_shard};
    case Phase::gather:
      return {BufferId::param_full, BufferId::param_columns};
  }
  return {};
}

}  // namespace

bool ShardedOptimizer::exists(BufferId id) const {
  switch (id) {
    case BufferId::norm_limbs:
      return setup_.hyper.norm != NormForm::inf;
    case BufferId::grad_amax:
      return setup_.hyper.norm == NormForm::inf;
    case BufferId::exp_avg:
    case BufferId::exp_avg_sq:
    case BufferId::max_exp_avg_sq:
    case BufferId::momentum_buffer:
      return state_.contains(id);
    case BufferId::exp_avg_scale:
    case BufferId::exp_avg_sq_scale:
    case BufferId::max_exp_avg_sq_scale:
    case BufferId::momentum_buffer_scale:
      return stored_.has_scales(id);
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
    case BufferId::grad_sum:
      return {id, array_view(grad_sum_), ranges_};
    case BufferId::unscaled_grad:
      return {id, array_view(unscaled_grad_), ranges_};
    case BufferId::grad:
      return {id, array_view(grad_), ranges_};
    case BufferId::exp_avg:
    case BufferId::exp_avg_sq:
    case BufferId::max_exp_avg_sq:
    case BufferId::momentum_buffer:
      return {id, stored_.has(id) ? stored_[id].codes() : array_view(state_.at(id)), ranges_};
    case BufferId::exp_avg_scale:
    case BufferId::exp_avg_sq_scale:
    case BufferId::max_exp_avg_sq_scale:
    case BufferId::momentum_buffer_scale:
      return stored_.scales(id);
    case BufferId::master:
      return {id, bf16_master_ ? bf16_master_->view() : array_view(master_), ranges_};
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
  }
  fail(ErrorCode::internal, "a buffer has no name", "taps ask for named buffers only",
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
