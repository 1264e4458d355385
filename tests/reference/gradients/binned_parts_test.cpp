// Binned sums of gradients in CP parts (R11), by hand.

#include "tests/reference/alone.hpp"

namespace binned_parts_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// Two micro-batches of three elements, each on two CP ranks.
class HandParts final : public GradSource {
 public:
  explicit HandParts(int cp_rank) : cp_rank_(cp_rank) {}

  TensorView micro_batch_grad(std::int64_t micro_batch) override {
    constexpr float large = 0x1.8p127F;
    constexpr float parts[2][2][3] = {{{1, -0.0F, large}, {0x1p-24F, -0.0F, large}},
                                      {{0x1p-24F, -0.0F, -large}, {0, -0.0F, 0}}};
    values_ = reference::nan_buffer(1024);
    std::ranges::copy(parts[micro_batch][cp_rank_], values_.begin());
    return reference::array_view(values_);
  }

 private:
  int cp_rank_;
  std::vector<float> values_;
};

}  // namespace

TEST_CASE("binned: parts of CP ranks are rounded to a gradient first, in every stage and order") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const MicroBatchOrder order : {MicroBatchOrder::contiguous, MicroBatchOrder::strided}) {
      for (const int world_size : {2, 4}) {
        CAPTURE(stage);
        CAPTURE(world_size);
        World world = reference_world(stage, {1, world_size, 1, 2}, 2);
        world.tensors = {{ParamSpec{"x", {3}}}};
        world.setup.order = order;
        world.setup.grad_sum = GradSum::binned;
        std::vector<std::vector<float>> sums(world_size);
        run_grid(world.grid, [&](const GridPlace& place) {
          WorldRank rank(world, place);
          rank.load();
          HandParts leaves(place.cp_rank);
          rank.optimizer->run_phase(Phase::prepare, leaves);
          rank.optimizer->run_phase(Phase::reduce, leaves);
          const TensorView sum = stored(*rank.optimizer, BufferId::grad_sum).view;
          const auto* values = static_cast<const float*>(sum.data);
          sums[place.number].assign(values, values + std::min<std::int64_t>(sum.numel, 3));
        });
        std::erase(sums,
                   std::vector<float>());  // one rank owns the only chunk; in stage 0 all have it
        CHECK(sums.size() == static_cast<std::size_t>(stage == 0 ? world_size : 1));
        for (const std::vector<float>& sum : sums) {
          // 1 + 2^-24 is a tie and rounds to 1; 2^-24 more in the other gradient is one again. The
          // parts alone would give 1 + 2^-23.
          CHECK(sum[0] == 1);
          CHECK(bits(sum[1]) == bits(0.0F));
          // The first gradient overflows; of the parts, two cancel.
          CHECK(std::isnan(sum[2]));
        }
      }
    }
  }
}

}  // namespace binned_parts_test
