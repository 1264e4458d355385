// byte_gpt trained layer by layer: the model runs on gathered parameters, nothing is cached.

#include <doctest.h>

#include <cstring>
#include <mutex>

#include "common/base/error.hpp"
#include "common/comm/threads.hpp"
#include "tests/verification/training/spread_buffer.hpp"
#include "tests/verification/training/training_support.hpp"
#include "verification/model/byte_gpt_layered.hpp"

namespace layered_training_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

/// Gradients of one step, computed with the parameters that the optimizer passes.
class LayeredGrads final : public GradSource {
 public:
  LayeredGrads(const RunConfig& config, const workload::Text& text, bool tied, std::int64_t step)
      : model_(shape_of(config, tied),
               [&config, &text, step](std::int64_t j) -> workload::ByteGptMicroBatch {
                 return {workload::micro_batch_tokens(text, config.seed, step - 1, j,
                                                      config.micro_batches, config.model.context)};
               }) {}

  static workload::ByteGptShape shape_of(const RunConfig& config, bool tied) {
    const ModelConfig& m = config.model;
    workload::ByteGptShape shape{m.layers, m.width, m.heads, m.hidden, m.context};
    shape.tied = tied;
    return shape;
  }

  LayeredModel* layers() override { return &model_; }
  TensorView micro_batch_grad(std::int64_t) override {
    fail(ErrorCode::internal, "a whole gradient was requested", "this model runs layer by layer",
         "use layers()");
  }

 private:
  workload::ByteGptLayered model_;
};

struct Setting {
  int world;
  int stage;
  bool overlap;
  bool tied;
};

/// Masters after the steps of a run, [padded_numel], +0 in padding.
std::vector<float> trained(const RunConfig& config, const workload::Text& text,
                           const FlatLayout& layout, const std::vector<float>& first,
                           const Setting& setting,
                           const verification::RankComparison::MakeOptimizer& make) {
  std::vector<float> zeros(first.size()), result(first.size());
  const ShardMap shards(layout.padded_numel(), setting.world, 4096);
  ThreadWorld world(setting.world);
  std::mutex mutex;
  run_ranks(world, [&](Communicator& comm) {
    OptimizerSetup setup;
    setup.layout = &layout;
    setup.shards = &shards;
    setup.comm = &comm;
    setup.stage = setting.stage;
    setup.overlap = setting.overlap;
    setup.micro_batches = config.micro_batches;
    setup.hyper = config.optimizer;
    const auto optimizer = make(setup);
    FullState state;
    state.master = first;
    state.slots = {zeros, zeros};
    optimizer->load_state(state);
    for (std::int64_t step = 1; step <= 4; ++step) {
      LayeredGrads leaves(config, text, setting.tied, step);
      optimizer->step(leaves);
    }
    for (const ExposedBuffer& buffer : optimizer->exposed(Phase::update)) {
      if (buffer.id != BufferId::master) continue;
      const std::lock_guard lock(mutex);
      spread(layout, buffer, result);
    }
  });
  return result;
}

void check_one_training(bool tied) {
  const RunConfig config = verification::workload_defaults("byte_gpt_tiny");
  const workload::Text text = verification::load_text(config);
  const workload::ByteGptShape shape = LayeredGrads::shape_of(config, tied);
  const FlatLayout layout(workload::byte_gpt_params(shape));
  std::vector<float> first(layout.padded_numel());
  workload::init_parameters(shape, layout, config.seed, first);
  const std::vector<float> one =
      trained(config, text, layout, first, {1, 0, false, tied}, reference_optimizer());
  CHECK(one != first);
  for (const Setting& setting :
       {Setting{3, 3, false, tied}, Setting{3, 3, true, tied}, Setting{4, 2, true, tied},
        Setting{8, 3, true, tied}, Setting{2, 1, false, tied}}) {
    CAPTURE(setting.world);
    CAPTURE(setting.stage);
    CAPTURE(setting.overlap);
    CHECK(one == trained(config, text, layout, first, setting, host_optimizer()));
    CHECK(one == trained(config, text, layout, first, setting, fused_optimizer()));
    CHECK(one == trained(config, text, layout, first, setting, reference_optimizer()));
  }
}

}  // namespace

TEST_CASE("byte_gpt layered training: gathered units give the bits of one rank") {
  check_one_training(false);
}

TEST_CASE("byte_gpt layered training: tied embeddings, visited twice, give the bits of one rank") {
  check_one_training(true);
}

}  // namespace layered_training_test
