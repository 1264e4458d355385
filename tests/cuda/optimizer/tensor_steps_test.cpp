// missing_grad = skip: queries of has_grad, and the scalars of every tensor (R5, R6).

#include "cuda/optimizer/state/tensor_steps.hpp"
#include "cuda/host/operations.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include <doctest.h>
#include "common/comm/self.hpp"

namespace tensor_steps_test {

namespace {

using namespace zeroproof;

constexpr std::int64_t tensors = 5;

/// Tensor i has a gradient from micro-batch i on.
class LaterAndLater final : public GradSource {
 public:
  TensorView micro_batch_grad(std::int64_t /*micro_batch*/) override { return {}; }
  bool has_grad(std::int64_t micro_batch, std::int64_t tensor) const override {
    asked.emplace_back(micro_batch, tensor);
    return micro_batch >= tensor;
  }
  mutable std::vector<std::pair<std::int64_t, std::int64_t>> asked;
};

struct Run {
  FlatLayout layout{{{"a", {3}}, {"b", {3}}, {"c", {3}}, {"d", {3}}, {"e", {3}}}};
  ShardMap shards{layout.padded_numel(), 1, 1024};
  std::unique_ptr<Communicator> comm = make_self_communicator();
  OptimizerSetup setup;

  Run() {
    setup.layout = &layout;
    setup.shards = &shards;
    setup.comm = comm.get();
    setup.micro_batches = 4;
    setup.missing_grad = MissingGrad::skip;
    setup.groups.rules.resize(1);
    setup.groups.rules[0].lr_mult = 0.5;
    setup.groups.of_tensor = {0, 1, 0, 1, 0};
  }
};

Piece piece_of(std::int64_t tensor) { return {tensor, 0, tensor * 1024, tensor * 1024, 3}; }

}  // namespace

TEST_CASE("skip: a tensor with a known gradient is not queried again") {
  Run run;
  cuda::TensorSteps steps(run.setup);
  LaterAndLater leaves;
  steps.prepare(leaves, 0);
  std::vector<std::pair<std::int64_t, std::int64_t>> expected;
  for (std::int64_t j = 0; j < run.setup.micro_batches; ++j) {
    for (std::int64_t i = j; i < tensors; ++i) expected.emplace_back(j, i);
  }
  CHECK(leaves.asked == expected);
  for (std::int64_t i = 0; i < tensors; ++i) CHECK(steps.updated(piece_of(i)) == (i < 4));
}

TEST_CASE("skip: every tensor has the scalars of its own group and step") {
  Run run;
  cuda::TensorSteps steps(run.setup);
  const std::vector<std::uint64_t> counts = {7, 7, 7, 2, 2};
  FullState state;
  state.tensor_steps = counts;
  state.applied_steps = 9;
  steps.load(state);
  LaterAndLater leaves;
  for (const std::uint64_t applied : {0, 1}) {
    steps.prepare(leaves, 3);
    CHECK(steps.scalars_view().numel == tensors * num_step_scalar_words);
    for (std::int64_t i = 0; i < tensors; ++i) {
      const auto at = static_cast<std::size_t>(i);
      // The last one has no gradient: its step number is unchanged.
      const auto t = static_cast<std::int64_t>(counts[at] + (i < 4 ? applied : 0)) + 1;
      const OptimizerHyper hyper =
          hyper_of(run.setup.groups, run.setup.hyper, run.setup.groups.of_tensor[at], 10, 4);
      const StepScalars right = cuda::host::step_scalars(hyper, t, 3, 4);
      CHECK(std::memcmp(&steps.scalars(piece_of(i)), &right, sizeof(right)) == 0);
    }
    steps.advance();
  }
}

}  // namespace tensor_steps_test
