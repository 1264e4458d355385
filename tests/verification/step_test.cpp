// The production optimizer driven the way a trainer drives it: step() with a tap, odd sizes, every dtype and form,
// every rule, norm form and policy.

#include <doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/comm/self.hpp"
#include "common/comm/threads.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "reference/dense_optimizer.hpp"
#include "tests/verification/step_support.hpp"
#include "verification/compare.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

class CountingTap final : public StepTap {
 public:
  void observe(Phase phase, const ExposedBuffer&) override {
    if (phases.empty() || phases.back() != phase) phases.push_back(phase);
  }
  std::vector<Phase> phases;
};

LossScalerConfig scaler() {
  LossScalerConfig config;
  config.kind = LossScalerKind::dynamic;
  config.log2_initial = 4;
  config.growth_interval = 2;
  config.hysteresis = 2;
  return config;
}

struct Config {
  int world;
  int stage;
  DType param, leaf;
  cuda::StepForm form;
  std::int64_t micro_batches;
};

/// DenseSetup and OptimizerSetup give these the same names.
template <class Setup>
Setup setup_of(const Config& c, const Recipe& recipe) {
  Setup setup;
  setup.layout = &odd_layout();
  setup.param_dtype = c.param;
  setup.micro_batches = c.micro_batches;
  setup.hyper = recipe.hyper;
  setup.scaler = scaler();
  setup.loss_reduction = recipe.loss_reduction;
  setup.on_nonfinite = recipe.on_nonfinite;
  setup.missing_grad = recipe.missing_grad;
  setup.param_rounding = recipe.param_rounding;
  setup.seed = 77;
  return setup;
}

/// Four steps, the second one overflowing; every rank's gathered parameters must be those of the dense optimizer.
void run(const Config& c, const Recipe& recipe) {
  const std::string name = recipe.name;
  CAPTURE(name);
  CAPTURE(c.world);
  CAPTURE(c.stage);
  const State state = first_state();
  const bool gaps = recipe.missing_grad == MissingGrad::skip;
  const std::int64_t applied_before = gaps ? 7 : 0;  // the momentum buffer of sgd starts with step 1
  const bool skips = recipe.on_nonfinite == OnNonfinite::skip;
  const auto dense_setup = setup_of<reference::DenseSetup>(c, recipe);
  reference::DenseOptimizer dense(dense_setup, state.full(applied_before));
  const ShardMap shards(odd_layout().padded_numel(), c.world, 2048);
  ThreadWorld world(c.world, std::chrono::milliseconds(20000));
  std::vector<std::unique_ptr<Communicator>> comms;
  std::vector<std::unique_ptr<DistributedOptimizer>> ranks(static_cast<std::size_t>(c.world));
  for (int r = 0; r < c.world; ++r) comms.push_back(world.communicator(r));
  for (std::int64_t step = 1; step <= 4; ++step) {
    Leaves leaves(step, c.micro_batches, c.leaf, 2, gaps);
    const bool applied = dense.step(leaves.views(), reference::facts_of(dense_setup, leaves));
    CHECK(applied == (step != 2 || !skips));
    run_ranks(world, [&](Communicator& self) {
      const auto r = static_cast<std::size_t>(self.rank());
      if (!ranks[r]) {
        auto setup = setup_of<OptimizerSetup>(c, recipe);
        setup.shards = &shards;
        setup.comm = comms[r].get();
        setup.stage = c.stage;
        setup.leaf_dtype = c.leaf;
        setup.exec.num_threads = 2;
        ranks[r] = cuda::make_distributed_optimizer(setup, c.form);
        ranks[r]->load_state(state.full(applied_before));
      }
      Leaves own(step, c.micro_batches, c.leaf, 2, gaps);
      CountingTap tap;
      const bool rank_applied = ranks[r]->step(own, &tap);
      const std::size_t phases = applied ? all_phases.size() : 3;
      if (rank_applied != applied || tap.phases.size() != phases) throw std::runtime_error("wrong phases");
    });
    for (const auto& rank : ranks) {
      CHECK(rank->applied_steps() == dense.applied_steps());
      CHECK(rank->loss_scaler() == dense.loss_scaler());
      CHECK(rank->damaged_guard().empty());
      const TensorView params = rank->exposed(Phase::gather).front().view;
      for (const Piece& piece : odd_layout().pieces({{0, odd_layout().padded_numel()}})) {
        CHECK(verification::compare(dense.param(), params, piece.global_begin, piece.numel).differing == 0);
      }
    }
  }
}

}  // namespace

TEST_CASE("step() gives the undistributed bits: worlds, stages, dtypes, forms, more ranks than work") {
  const Recipe adamw{"adamw"};
  for (const cuda::StepForm form : {cuda::StepForm::phases, cuda::StepForm::fused}) {
    for (const int stage : {0, 1, 2}) {
      for (const int world : {1, 2, 5, 9}) {
        run({world, stage, DType::bf16, DType::fp32, form, 3}, adamw);
      }
      run({3, stage, DType::fp16, DType::fp16, form, 7}, adamw);
      run({3, stage, DType::fp32, DType::bf16, form, 2}, adamw);
    }
  }
}

TEST_CASE("step() gives the undistributed bits: every rule, norm form and policy") {
  for (const Recipe& recipe : recipes()) {
    for (const cuda::StepForm form : {cuda::StepForm::phases, cuda::StepForm::fused}) {
      for (const int stage : {0, 1, 2}) run({3, stage, DType::bf16, DType::fp32, form, 5}, recipe);
      if (recipe.param_rounding == ParamRounding::stochastic) continue;
      run({2, 1, DType::fp16, DType::bf16, form, 4}, recipe);
    }
  }
}

TEST_CASE("phases out of turn are errors") {
  const ShardMap shards(odd_layout().padded_numel(), 1, 1024);
  const std::unique_ptr<Communicator> comm = make_self_communicator();
  OptimizerSetup setup;
  setup.layout = &odd_layout();
  setup.shards = &shards;
  setup.comm = comm.get();
  setup.micro_batches = 2;
  const auto optimizer = cuda::make_distributed_optimizer(setup);
  Leaves overflow(1, 2, DType::fp32, 1);
  CHECK_THROWS_AS(optimizer->run_phase(Phase::prepare, overflow), Error);  // nothing was loaded
  optimizer->load_state(first_state().full(0));
  CHECK_FALSE(optimizer->step(overflow));
  CHECK_THROWS_AS(optimizer->run_phase(Phase::update, overflow), Error);  // the step is skipped
  Leaves wrong_dtype(1, 2, DType::bf16, 0);
  optimizer->run_phase(Phase::prepare, wrong_dtype);
  CHECK_THROWS_AS(optimizer->run_phase(Phase::reduce, wrong_dtype), Error);
}
