// Errors of the production step: gradients that are not finite under on_nonfinite = error, and
// invalid gradients and states. Every rank must report them, and nothing may have changed.

#include <doctest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/comm/self.hpp"
#include "common/comm/threads.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "tests/cuda/expect_error.hpp"

namespace policy_test {

namespace {

using namespace zeroproof;
using tests::expect_error;

constexpr std::int64_t micro_batches = 3;

/// Small gradients; one element of the last gradient is infinite on request.
class Leaves final : public GradSource {
 public:
  explicit Leaves(const FlatLayout& layout)
      : values_(static_cast<std::size_t>(layout.padded_numel()), 0.25F) {}

  TensorView micro_batch_grad(std::int64_t micro_batch) override {
    const bool bad = infinite && micro_batch == micro_batches - 1;
    values_[1024] = bad ? std::numeric_limits<float>::infinity() : 0.25F;
    return {missing ? nullptr : values_.data(), DType::fp32,
            static_cast<std::int64_t>(values_.size())};
  }
  std::int64_t num_tokens(std::int64_t) const override { return tokens; }

  bool infinite = false;
  bool missing = false;
  std::int64_t tokens = 5;

 private:
  std::vector<float> values_;
};

std::vector<std::byte> bytes_of(DistributedOptimizer& optimizer, const std::vector<Phase>& phases) {
  std::vector<std::byte> all;
  for (const Phase phase : phases) {
    for (const ExposedBuffer& buffer : optimizer.exposed(phase)) {
      const auto* data = static_cast<const std::byte*>(buffer.view.data);
      all.insert(all.end(), data, data + buffer.view.num_bytes());
    }
  }
  return all;
}

const FlatLayout layout({{"a", {7, 11}}, {"b", {3}}, {"empty", {0}}});

OptimizerSetup setup_for(Communicator& comm, const ShardMap& shards, int stage) {
  OptimizerSetup setup;
  setup.layout = &layout;
  setup.shards = &shards;
  setup.comm = &comm;
  setup.stage = stage;
  setup.micro_batches = micro_batches;
  setup.scaler.kind = LossScalerKind::dynamic;
  return setup;
}

const std::vector<float> ones(layout.padded_numel(), 1.0F);
const FullState first_state{ones, ones, ones, {}, {}, {}, 4, {0, 2, 1}};

}  // namespace

TEST_CASE("on_nonfinite = error: every rank throws, nothing changes, and the next step works") {
  const ShardMap shards(layout.padded_numel(), 3, 1024);
  for (const int stage : {0, 1, 2}) {
    for (const bool fused : {false, true}) {
      CAPTURE(stage);
      std::vector<std::string> problems(3);
      ThreadWorld world(3);
      run_ranks(world, [&](Communicator& comm) {
        OptimizerSetup setup = setup_for(comm, shards, stage);
        setup.on_nonfinite = OnNonfinite::error;
        const auto optimizer = cuda::make_distributed_optimizer(setup, Space::host, fused);
        optimizer->load_state(first_state);
        Leaves leaves(layout);
        optimizer->step(leaves);
        const std::vector<Phase> kept = {Phase::update, Phase::cast, Phase::gather};
        const std::vector<std::byte> before = bytes_of(*optimizer, kept);
        const LossScalerState scaler = optimizer->loss_scaler();
        std::string& problem = problems[comm.rank()];
        leaves.infinite = true;
        ErrorCode code = ErrorCode::internal;
        try {
          optimizer->step(leaves);
          problem = "did not throw";
        } catch (const Error& error) {
          code = error.code();
        }
        if (code != ErrorCode::nonfinite) problem += " another error";
        if (bytes_of(*optimizer, kept) != before) problem += " state changed";
        if (!(optimizer->loss_scaler() == scaler) || optimizer->applied_steps() != 5)
          problem += " counters changed";
        try {
          optimizer->run_phase(Phase::norm, leaves);
          problem += " went on to the norm";
        } catch (const Error&) {
        }
        leaves.infinite = false;
        if (!optimizer->step(leaves) || optimizer->applied_steps() != 6) problem += " cannot go on";
      });
      for (const std::string& problem : problems) CHECK(problem == "");
    }
  }
}

TEST_CASE("production step: invalid gradients, token counts and states are errors") {
  const auto comm = make_self_communicator();
  const ShardMap shards(layout.padded_numel(), 1, 1024);
  for (const int stage : {0, 1, 2}) {
    OptimizerSetup setup = setup_for(*comm, shards, stage);
    setup.loss_reduction = LossReduction::tokens;
    const auto optimizer = cuda::make_distributed_optimizer(setup);
    optimizer->load_state(first_state);
    Leaves leaves(layout);
    for (const std::int64_t tokens :
         {std::int64_t{-1}, std::int64_t{1} << 52, std::numeric_limits<std::int64_t>::max()}) {
      leaves.tokens = tokens;
      expect_error(ErrorCode::invalid_argument,
                   [&] { optimizer->run_phase(Phase::prepare, leaves); });
    }
    leaves.tokens = 0;  // of all micro-batches: the divisor is 1
    CHECK_NOTHROW(optimizer->run_phase(Phase::prepare, leaves));
    leaves.missing = true;
    expect_error(ErrorCode::invalid_argument, [&] { optimizer->run_phase(Phase::reduce, leaves); });
  }
  OptimizerSetup setup = setup_for(*comm, shards, 1);
  setup.missing_grad = MissingGrad::skip;
  setup.param_rounding = ParamRounding::stochastic;
  for (const DType dtype : {DType::fp16, DType::fp32}) {
    setup.param_dtype = dtype;
    expect_error(ErrorCode::invalid_argument, [&] { cuda::make_distributed_optimizer(setup); });
  }
  setup.param_dtype = DType::bf16;
  const auto optimizer = cuda::make_distributed_optimizer(setup);
  const auto loads = [&](std::vector<std::uint64_t> tensor_steps, std::int64_t applied) {
    FullState state = first_state;
    state.tensor_steps = tensor_steps;
    state.applied_steps = applied;
    optimizer->load_state(state);
  };
  constexpr auto end = std::numeric_limits<std::int64_t>::max();
  expect_error(ErrorCode::invalid_argument, [&] { loads({1, 2}, 4); });
  expect_error(ErrorCode::invalid_argument, [&] { loads({1, 2, 3, 4}, 4); });
  expect_error(ErrorCode::invalid_argument, [&] {
    loads({1, 2, static_cast<std::uint64_t>(end)}, 4);
  });
  expect_error(ErrorCode::invalid_argument, [&] { loads({1, 2, ~std::uint64_t{0}}, 4); });
  expect_error(ErrorCode::invalid_argument, [&] { loads({1, 2, 3}, end); });
  CHECK_NOTHROW(loads({1, 2, 3}, 4));
}

}  // namespace policy_test
