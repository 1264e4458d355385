// The production optimizer driven the way a trainer drives it: step() with a tap, odd sizes, every dtype and form.

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"
#include "common/base/philox.hpp"
#include "common/comm/self.hpp"
#include "common/comm/threads.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "reference/dense_optimizer.hpp"
#include "verification/compare.hpp"

namespace {

using namespace zeroproof;

/// A tensor of every awkward size; the middle one has no elements.
const FlatLayout& odd_layout() {
  static const FlatLayout layout({{"one", {}},
                                  {"seven", {7}},
                                  {"none", {0, 5}},
                                  {"chunk", {1024}},
                                  {"odd", {3, 701}},
                                  {"last", {1025}}});
  return layout;
}

/// Leaves of one step: bell-shaped, with an infinity in the leaf of micro-batch 1 of step `overflow_step`.
class Leaves final : public LeafSource {
 public:
  Leaves(std::int64_t step, std::int64_t micro_batches, DType dtype, std::int64_t overflow_step) {
    const auto numel = static_cast<std::size_t>(odd_layout().padded_numel());
    for (std::int64_t j = 0; j < micro_batches; ++j) {
      const Philox random(99, 7, static_cast<std::uint32_t>(step * 1000 + j));
      std::vector<float> values(numel, std::numeric_limits<float>::quiet_NaN());
      for (const Piece& piece : odd_layout().pieces({{0, odd_layout().padded_numel()}})) {
        for (std::int64_t i = piece.global_begin; i < piece.global_begin + piece.numel; ++i) {
          values[static_cast<std::size_t>(i)] = random.bell(static_cast<std::uint64_t>(i)) * 3.0F;
        }
      }
      if (step == overflow_step && j == 1) values[1024] = std::numeric_limits<float>::infinity();
      wide_.push_back(values);
      half_.emplace_back(numel);
      for (std::size_t i = 0; i < numel; ++i) {
        half_.back()[i] = dtype == DType::fp16 ? to_fp16(values[i]).bits : to_bf16(values[i]).bits;
      }
    }
    dtype_ = dtype;
  }

  TensorView leaf(std::int64_t j) override {
    const auto index = static_cast<std::size_t>(j);
    void* data = dtype_ == DType::fp32 ? static_cast<void*>(wide_[index].data()) : half_[index].data();
    return {data, dtype_, odd_layout().padded_numel()};
  }
  std::vector<TensorView> views() {
    std::vector<TensorView> all;
    for (std::size_t j = 0; j < wide_.size(); ++j) all.push_back(leaf(static_cast<std::int64_t>(j)));
    return all;
  }

 private:
  DType dtype_ = DType::fp32;
  std::vector<std::vector<float>> wide_;
  std::vector<std::vector<std::uint16_t>> half_;
};

struct State {
  std::vector<float> master, exp_avg, exp_avg_sq;
  FullState full(std::int64_t applied) const { return {master, exp_avg, exp_avg_sq, applied, {4, 0, 2}}; }
};

State first_state() {
  const auto numel = static_cast<std::size_t>(odd_layout().padded_numel());
  State state;
  const Philox random(5, 1);
  for (std::size_t i = 0; i < numel; ++i) {
    state.master.push_back(random.bell(i) * 0.1F);
    state.exp_avg.push_back(random.bell(numel + i) * 0.01F);
    state.exp_avg_sq.push_back(random.uniform(5 * numel + i) * 1e-3F);
  }
  return state;
}

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

/// Four steps, the second one overflowing; every rank's gathered parameters must be those of the dense optimizer.
void run(const Config& c) {
  const State state = first_state();
  OptimizerHyper hyper;
  hyper.max_norm = 1.0;
  reference::DenseOptimizer dense({&odd_layout(), c.param, c.micro_batches, hyper, scaler()}, state.full(3));
  const ShardMap shards(odd_layout().padded_numel(), c.world, 2048);
  ThreadWorld world(c.world, std::chrono::milliseconds(20000));
  std::vector<std::unique_ptr<Communicator>> comms;
  std::vector<std::unique_ptr<DistributedOptimizer>> ranks(static_cast<std::size_t>(c.world));
  for (int r = 0; r < c.world; ++r) comms.push_back(world.communicator(r));
  for (std::int64_t step = 1; step <= 4; ++step) {
    Leaves leaves(step, c.micro_batches, c.leaf, 2);
    const bool applied = dense.step(leaves.views());
    CHECK(applied == (step != 2));
    run_ranks(world, [&](Communicator& self) {
      const auto r = static_cast<std::size_t>(self.rank());
      if (!ranks[r]) {
        OptimizerSetup setup{&odd_layout(), &shards,         comms[r].get(), c.stage,  c.param,
                             c.leaf,        c.micro_batches, hyper,          scaler(), {}};
        setup.exec.num_threads = 2;
        ranks[r] = cuda::make_distributed_optimizer(setup, c.form);
        ranks[r]->load_state(state.full(3));
      }
      Leaves own(step, c.micro_batches, c.leaf, 2);
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
  for (const cuda::StepForm form : {cuda::StepForm::phases, cuda::StepForm::fused}) {
    for (const int stage : {0, 1, 2}) {
      for (const int world : {1, 2, 5, 9}) {
        CAPTURE(stage);
        CAPTURE(world);
        run({world, stage, DType::bf16, DType::fp32, form, 3});
      }
      run({3, stage, DType::fp16, DType::fp16, form, 7});
      run({3, stage, DType::fp32, DType::bf16, form, 2});
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
