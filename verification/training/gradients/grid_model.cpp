#include "verification/training/gradients/grid_model.hpp"

#include <map>

#include "common/base/error.hpp"

namespace zeroproof::verification {
namespace {

/// Gradients computed in advance, because computing them takes several ranks.
class ComputedGrads final : public GradProvider {
 public:
  const GradCache::Grad& micro_batch_grad(std::int64_t micro_batch) override {
    const auto found = leaves_.find(micro_batch);
    ZP_CHECK(
        found != leaves_.end(), ErrorCode::internal,
        "the gradient of micro-batch " + std::to_string(micro_batch) + " belongs to another rank",
        "a rank has parts of its own micro-batches only",
        "request the micro-batches that R11 assigns to the rank");
    return found->second;
  }

  GradCache::Grad& make(std::int64_t micro_batch) { return leaves_[micro_batch]; }

 private:
  std::map<std::int64_t, GradCache::Grad> leaves_;
};

}  // namespace

GridModel::GridModel(const Experiment& experiment, const CaseLayout& layout,
                     const RankCoords& place, Communicator* tp, Communicator* cp)
    : experiment_(experiment), layout_(layout), place_(place), groups_{tp, cp} {
  ZP_CHECK(experiment.grad_dtype() == DType::fp32, ErrorCode::config,
           "a grid with context or tensor parallelism cannot be used with " +
               std::string(name(experiment.grad_dtype())) + " leaves",
           "a rank has a part of a gradient, which cannot be rounded before the sum of all parts",
           "use bf16 or fp32 parameters, whose gradients are fp32");
  ZP_CHECK(!experiment.visits().empty(), ErrorCode::config,
           "recorded gradients cannot be used on a grid with context or tensor parallelism",
           "they are recorded as whole tensors", "use data parallel ranks only");
}

std::unique_ptr<GradProvider> GridModel::leaves(std::int64_t step,
                                                const std::vector<std::int64_t>& micro_batches,
                                                const TensorView& params, int log2_loss_scale) {
  const FlatLayout& layout = layout_.local(place_.tp_rank).layout;
  auto computed = std::make_unique<ComputedGrads>();
  for (const std::int64_t j : micro_batches) {
    GradCache::Grad& leaf = computed->make(j);
    leaf.values = GuardedBuffer(layout.padded_numel(), experiment_.grad_dtype());
    leaf.loss = experiment_.leaf_part(step, j, groups_, layout, params, log2_loss_scale,
                                      leaf.values.view());
    leaf.digest = raw_digest(leaf.values.data(), leaf.values.view().num_bytes());
  }
  return computed;
}

}  // namespace zeroproof::verification
