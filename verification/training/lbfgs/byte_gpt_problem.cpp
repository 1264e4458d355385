#include "verification/training/lbfgs/byte_gpt_problem.hpp"

#include "verification/training/lbfgs/sharded_point.hpp"

namespace zeroproof::verification {
namespace {

TensorView view_of(const float* values, std::int64_t numel) {
  return {const_cast<float*>(values), DType::fp32, numel};  // views of parameters are only read
}

}  // namespace

Experiment lbfgs_experiment(RunConfig config) {
  config.overflow_step = 0;
  config.idle_tensors = false;
  return {"byte_gpt_tiny", config, DType::fp32, load_text(config)};
}

ByteGptClosure::ByteGptClosure(const LbfgsSetup& place, const LbfgsImplementation& implementation,
                               const Experiment& experiment)
    : place_(place),
      implementation_(implementation),
      experiment_(experiment),
      inv_scale_(
          implementation
              .step_scalars(experiment.config().optimizer, 1, 0, experiment.config().micro_batches)
              .inv_scale) {}

double ByteGptClosure::compute(Span<const float> master_shard, Span<float> grad_shard) {
  const std::int64_t micro_batches = experiment_.config().micro_batches;
  const std::int64_t padded = place_.layout->padded_numel();
  const int world = place_.comm->world_size();
  const std::vector<float> point = gathered(place_, master_shard);

  std::vector<float> own_leaves;  // [own micro-batches][padded_numel]
  std::vector<double> own_losses;
  std::vector<std::size_t> leaf_numels;
  std::vector<std::size_t> loss_numels;
  for (int rank = 0; rank < world; ++rank) {
    const std::int64_t first = micro_batches * rank / world;
    const std::int64_t last = micro_batches * (rank + 1) / world;
    leaf_numels.push_back(static_cast<std::size_t>((last - first) * padded));
    loss_numels.push_back(static_cast<std::size_t>(last - first));
    if (rank != place_.comm->rank()) continue;
    own_leaves.resize(leaf_numels.back());
    for (std::int64_t j = first; j < last; ++j) {
      const TensorView leaf = view_of(own_leaves.data() + (j - first) * padded, padded);
      own_losses.push_back(
          experiment_.micro_batch_grad(1, j, view_of(point.data(), padded), 0, leaf));
    }
  }
  const std::vector<float> leaves = gathered(*place_.comm, own_leaves, leaf_numels);
  const std::vector<double> losses = gathered(*place_.comm, own_losses, loss_numels);

  for (const Piece& piece : own_pieces(place_)) {
    const auto numel = static_cast<std::size_t>(piece.numel);
    std::vector<Span<const float>> parts;
    for (std::int64_t j = 0; j < micro_batches; ++j) {
      parts.push_back(Span<const float>(leaves).subspan(j * padded + piece.global_begin, numel));
    }
    const Span<float> grad = grad_shard.subspan(piece.local_begin, numel);
    implementation_.grad_sum(place_.exec, parts, grad);
    implementation_.unscale(place_.exec, inv_scale_, grad, grad);
  }
  return implementation_.mean_loss(losses, micro_batches);
}

ByteGptProblem::ByteGptProblem(const RunConfig& config) : experiment_(lbfgs_experiment(config)) {
  const Span<const float> master = experiment_.initial_state().master;
  start_.assign(master.begin(), master.end());
}

std::unique_ptr<Closure> ByteGptProblem::closure(const LbfgsSetup& place,
                                                 const LbfgsImplementation& implementation,
                                                 std::int64_t) const {
  return std::make_unique<ByteGptClosure>(place, implementation, experiment_);
}

}  // namespace zeroproof::verification
