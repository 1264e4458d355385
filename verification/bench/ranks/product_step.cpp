#include "verification/bench/ranks/product_step.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "verification/bench/measure/values.hpp"

namespace zeroproof::verification::bench {

/// The gradient this rank has; it computes no other micro-batch.
class RankProductStep::OwnLeaf final : public GradSource {
 public:
  explicit OwnLeaf(const TensorView& leaf) : leaf_(leaf) {}
  TensorView micro_batch_grad(std::int64_t) override { return leaf_; }

 private:
  const TensorView leaf_;
};

const std::vector<ProductVariant>& product_variants() {
  static const std::vector<ProductVariant> variants = {
      {"messages", Windows::off},
      {"windows", Windows::on},
      {"windows, leaf there", Windows::on, true},
      {"windows, one copy", Windows::params},
      {"windows, one copy, leaf there", Windows::params, true},
  };
  return variants;
}

std::string row_name(const ProductVariant& variant) { return std::string("product, ") + variant.name; }

RankProductStep::RankProductStep(RankData& data, const ProductVariant& variant)
    : variant_(variant),
      layout_({{"weight", {data.numel}}}),
      shards_(data.numel, data.comm.world_size(), data.numel) {
  OptimizerSetup setup;
  setup.layout = &layout_;
  setup.shards = &shards_;
  setup.comm = &data.comm;
  setup.stage = 1;
  setup.micro_batches = data.comm.world_size();
  setup.hyper = step_hyper(true);
  setup.scaler.kind = LossScalerKind::constant;
  setup.scaler.log2_initial = log2_loss_scale;
  setup.windows = variant.windows;
  optimizer_ = cuda::make_distributed_optimizer(setup, Space::host, true);
  const RankState first({0, data.numel});
  FullState state;
  state.master = first.master.span();
  state.exp_avg = first.exp_avg.span();
  state.exp_avg_sq = first.exp_avg_sq.span();
  state.applied_steps = steps_before;
  state.scaler.log2_scale = log2_loss_scale;
  optimizer_->load_state(state);
  TensorView leaf{data.leaf.data(), DType::fp32, data.numel};
  if (variant.leaf_there) {
    const TensorView there = optimizer_->leaf_buffer();
    std::copy_n(data.leaf.data(), data.numel, static_cast<float*>(there.data));
    leaf = there;
  }
  leaves_ = std::make_unique<OwnLeaf>(leaf);
}

void RankProductStep::step() {
  optimizer_->step(*leaves_);
  ++steps_;
}

TensorView RankProductStep::buffer(BufferId id) const {
  const std::vector<ExposedBuffer> all = optimizer_->storage();
  const auto found = std::find_if(all.begin(), all.end(), [&](const ExposedBuffer& b) { return b.id == id; });
  ZP_CHECK(found != all.end(), ErrorCode::internal, "the production step has no " + std::string(name(id)),
           "its bits are to be compared", "report it");
  return found->view;
}

std::vector<std::unique_ptr<RankProductStep>> product_steps(RankData& data) {
  std::vector<std::unique_ptr<RankProductStep>> steps;
  for (const ProductVariant& variant : product_variants())
    steps.push_back(std::make_unique<RankProductStep>(data, variant));
  return steps;
}

}  // namespace zeroproof::verification::bench
