#include "verification/compare/judge/dense_baseline.hpp"

#include "common/base/parallel_for.hpp"
#include "verification/compare/judge/rank_buffers.hpp"
#include "verification/training/gradients/model_params.hpp"

namespace zeroproof::verification {
namespace {

template <class T>
TensorView view_of(const std::vector<T>& values, DType dtype) {
  return {const_cast<T*>(values.data()), dtype,
          static_cast<std::int64_t>(values.size() * sizeof(T)) / num_bytes(dtype)};
}

}  // namespace

StepSettings dense_settings(const Experiment& experiment) {
  StepSettings settings = experiment.setup();
  settings.grad_sum = experiment.grad_sum();
  return settings;
}

reference::MicroBatchFacts facts_of(const Experiment& experiment, std::int64_t step) {
  reference::MicroBatchFacts facts;
  for (std::int64_t j = 0; j < experiment.config().micro_batches; ++j) {
    facts.num_tokens.push_back(experiment.num_tokens(j));
    std::vector<bool>& has_grad = facts.has_grad.emplace_back();
    for (std::size_t i = 0; i < experiment.layout().tensors().size(); ++i) {
      has_grad.push_back(experiment.has_grad(step, j, static_cast<std::int64_t>(i)));
    }
  }
  return facts;
}

TensorView params_of_model(const Experiment& experiment, const reference::DenseOptimizer& optimizer,
                           GuardedBuffer& decoded) {
  const TensorView params = optimizer.param();
  if (!has_scales(params.dtype)) return params;
  decoded = model_params(experiment.layout(), experiment.blocks(), params,
                         optimizer.buffer(BufferId::param_scale_inv));
  return decoded.view();
}

DenseBaseline::DenseBaseline(const Experiment& experiment, GradCache& leaves,
                             ThreadPool* thread_pool, const FullState* start)
    : experiment_(experiment),
      leaves_(leaves),
      thread_pool_(thread_pool),
      optimizer_(dense_settings(experiment),
                 start != nullptr ? *start : experiment.initial_state()),
      hash_(experiment.grad_sum()) {
  trace_.workload = experiment.workload();
  trace_.recipe = experiment.recipe();
  trace_.dtype = experiment.param_dtype();
  trace_.grad_sum = experiment.grad_sum();
  trace_.parameters = experiment.layout().numel();
  trace_.micro_batches = experiment.config().micro_batches;
  trace_.context = experiment.context();
}

void DenseBaseline::step(std::int64_t number) {
  const std::int64_t count = experiment_.config().micro_batches;
  const int scale = optimizer_.loss_scaler().log2_scale;
  GuardedBuffer decoded;
  const TensorView params = params_of_model(experiment_, optimizer_, decoded);
  const Digest digest = leaves_.parameters_digest(params);
  std::vector<TensorView> views(count);
  std::vector<double> losses(count);
  const auto make_leaf = [&](std::int64_t j) {
    const GradCache::Grad& leaf = leaves_.micro_batch_grad(number, j, params, digest, scale);
    views[j] = leaf.view();
    losses[j] = leaf.loss;
  };
  if (thread_pool_ != nullptr) {
    thread_pool_->for_each(count, make_leaf);
  } else {
    parallel_for(available_cores(), count, make_leaf);
  }
  optimizer_.step(views, facts_of(experiment_, number));
  record(number, scale, losses);
}

TrainingTrace DenseBaseline::trace() const {
  TrainingTrace trace = trace_;
  trace.hash = hash_.digest();
  return trace;
}

void DenseBaseline::record(std::int64_t number, int scale, const std::vector<double>& losses) {
  const reference::DenseStep& last = optimizer_.last_step();
  TrainingStep step;
  for (const double loss : losses) step.loss += loss / static_cast<double>(losses.size());
  step.grad_norm = last.grad_norm.front();
  step.clip_coef = last.clip_coef.front();
  for (std::size_t group = 1; group < last.grad_norm.size(); ++group) {
    step.clip_groups.push_back({experiment_.config().clip_groups[group - 1].name,
                                last.grad_norm[group], last.clip_coef[group]});
  }
  step.log2_loss_scale = scale;
  step.skipped = last.skipped;
  trace_.steps.push_back(step);

  std::vector<TrajectoryHash::Buffer> buffers = {{optimizer_.buffer(BufferId::grad_sum)},
                                                 {optimizer_.buffer(BufferId::master)}};
  for (const StateSlot slot : all_state_slots) {
    const TensorView view = optimizer_.buffer(buffer_of(slot));
    if (view.data == nullptr) continue;
    buffers.push_back({view});
    const TensorView scales = optimizer_.buffer(scales_of(slot));
    if (scales.data != nullptr) buffers.push_back({scales, state_block_numel});
  }
  buffers.push_back({optimizer_.buffer(BufferId::param_full)});
  TrajectoryScales scales;
  if (has_scales(experiment_.param_dtype())) {
    scales = {&experiment_.blocks(), optimizer_.buffer(BufferId::param_scale),
              optimizer_.buffer(BufferId::amax_history)};
  }
  hash_.add_step(
      {number, view_of(last.scalars, DType::u32), scale, last.found_inf != 0, last.skipped,
       optimizer_.buffer(BufferId::grad_norm), optimizer_.buffer(BufferId::clip_coef),
       view_of(optimizer_.tensor_steps(), DType::u64)},
      experiment_.layout(), buffers, scales);
}

}  // namespace zeroproof::verification
