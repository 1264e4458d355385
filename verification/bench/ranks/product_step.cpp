#include "verification/bench/ranks/product_step.hpp"

#include <algorithm>
#include <deque>

#include "common/base/error.hpp"
#include "verification/bench/measure/values.hpp"

namespace zeroproof::verification::bench {

/// The gradients of this rank's micro-batches, which are there before the step.
class RankProductStep::OwnLeaves final : public GradSource {
 public:
  /// last: where the last one lies, if not here.
  OwnLeaves(std::int64_t first, std::int64_t end, std::int64_t numel, const TensorView& last)
      : first_(first) {
    for (std::int64_t j = first; j < end; ++j) {
      Span<float> values;
      if (j + 1 == end && last.data != nullptr) {
        values = {static_cast<float*>(last.data), static_cast<std::size_t>(numel)};
      } else {
        values = memory_.emplace_back(numel).span();
      }
      fill_leaf(j, 0, values);
      leaves_.push_back({values.data(), DType::fp32, numel});
    }
  }
  TensorView micro_batch_grad(std::int64_t micro_batch) override {
    return leaves_[static_cast<std::size_t>(micro_batch - first_)];
  }

 private:
  const std::int64_t first_;
  std::deque<HugeBuffer<float>> memory_;
  std::vector<TensorView> leaves_;
};

const std::vector<ProductVariant>& product_variants() {
  static const std::vector<ProductVariant> variants = {
      {"messages", Windows::off, false, false, 1, 1},
      {"windows", Windows::on},
      {"windows, leaf there", Windows::on, true},
      {"one copy", Windows::params, true, false, 4, 2},
      {"one copy, M = 2 R + 1", Windows::params, true, true},
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
  setup.micro_batches = variant.micro_batches(data.comm.world_size());
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
  const std::int64_t count = setup.micro_batches, ranks = data.comm.world_size(), rank = data.comm.rank();
  leaves_ = std::make_unique<OwnLeaves>(count * rank / ranks, count * (rank + 1) / ranks, data.numel,
                                        variant.leaf_there ? optimizer_->leaf_buffer() : TensorView{});
}

void RankProductStep::step() {
  optimizer_->step(*leaves_);
  ++steps_;
}

TensorView RankProductStep::buffer(BufferId id) const {
  for (const Phase phase : {Phase::update, Phase::gather}) {
    for (const ExposedBuffer& exposed : optimizer_->exposed(phase)) {
      if (exposed.id == id) return exposed.view;
    }
  }
  fail(ErrorCode::internal, "the production step has no " + std::string(name(id)),
       "its bits are to be compared", "report it");
}

std::vector<std::unique_ptr<RankProductStep>> product_steps(RankData& data) {
  std::vector<std::unique_ptr<RankProductStep>> steps;
  for (const ProductVariant& variant : product_variants())
    steps.push_back(std::make_unique<RankProductStep>(data, variant));
  return steps;
}

}  // namespace zeroproof::verification::bench
