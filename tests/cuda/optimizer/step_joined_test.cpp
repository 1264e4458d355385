// Neighbouring tensors are joined where their treatment is the same: the bits of tensors one by
// one.

#include <algorithm>
#include <memory>
#include <vector>

#include "cuda/optimizer/host/host_step.hpp"
#include "cuda/optimizer/production_optimizer.hpp"
#include "tests/cuda/optimizer/production_world.hpp"

namespace step_joined_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

/// Pieces from the last to the first: none follows the previous one.
struct Apart {
  explicit Apart(const cuda::RankShard& shard)
      : pieces(reversed(shard)),
        own{.setup = shard.setup,
            .ranges = shard.ranges,
            .pieces = pieces,
            .grad = shard.grad,
            .master = shard.master,
            .params = shard.params,
            .state = shard.state} {}

  static cuda::host::PieceLoop reversed(const cuda::RankShard& shard) {
    std::vector<Piece> pieces = shard.setup.layout->pieces(shard.ranges);
    std::ranges::reverse(pieces);
    return cuda::host::PieceLoop(pieces);
  }

  cuda::host::PieceLoop pieces;
  cuda::RankShard own;
};

/// The step over pieces that are not joined.
class StepApart final : private Apart, public cuda::HostStep {
 public:
  StepApart(const cuda::RankShard& shard, bool fused, const cuda::KernelTable& ops)
      : Apart(shard), HostStep(own, fused, ops) {}
};

/// Every tensor in a separate call, and two nodes at a time.
MakeOptimizer one_by_one(bool fused) {
  static const cuda::KernelTable ops = [] {
    cuda::KernelTable all = cuda::host_ops();
    all.fused_fold = nullptr;
    return all;
  }();
  return [fused](const OptimizerSetup& setup) {
    return std::make_unique<cuda::ProductionOptimizer>(
        setup, Space::host, ops,
        [fused](cuda::RankShard& shard) { return std::make_unique<StepApart>(shard, fused, ops); });
  };
}

/// With padding between some of them, and without it between others: in two groups, one of them with neighbours.
World joined_world(const Grid& grid) {
  World world = production_world(grid, 3);
  world.tensors = {{{"a", {1024}},
                    {"b", {2, 1024}},
                    {"c", {1000}},
                    {"d", {1024}},
                    {"empty", {0}},
                    {"e", {1024}},
                    {"f", {3, 1024}},
                    {"g", {5}},
                    {"h", {1024}},
                    {"i", {2048}},
                    {"j", {1024}},
                    {"k", {1024}},
                    {"l", {1030}}}};
  world.shards = World::contract_map(16384);  // a rank owns several neighbours
  world.steps = 3;
  return world;
}

void give_groups(World& world) {
  world.setup.groups.rules.resize(1);
  world.setup.groups.rules[0].name = "slow";
  world.setup.groups.rules[0].lr_mult = 0.25;
  world.setup.groups.of_tensor = {0, 1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 0, 0};
}

/// The fused form and the phases, on one thread and on two, against tensors one by one.
void check_joined(World world) {
  for (const bool fused : {false, true}) {
    world.make = one_by_one(fused);
    const WorldTruth truth = truth_of_one_rank(world);
    for (const int threads : {1, 2}) {
      world.make = production(fused);
      world.setup.exec.num_threads = threads;
      check_world(world, truth, fused ? "fused" : "phases");
    }
  }
}

}  // namespace

TEST_CASE("joined: groups, tensors without a gradient, and both kinds of rounding") {
  for (const ParamRounding rounding : {ParamRounding::nearest, ParamRounding::stochastic}) {
    for (const MissingGrad missing : {MissingGrad::zero, MissingGrad::skip}) {
      for (const int stage : {0, 1, 3}) {
        World world = joined_world({1, stage == 0 ? 1 : 2});
        give_groups(world);
        world.setup.stage = stage;
        world.setup.missing_grad = missing;
        world.setup.param_dtype = DType::bf16;
        world.setup.param_rounding = rounding;
        check_joined(world);
      }
    }
  }
}

TEST_CASE("joined: neighbours with trust ratios of their own") {
  for (const int stage : {0, 1}) {
    World world = joined_world({1, stage == 0 ? 1 : 2});
    world.setup.stage = stage;
    world.setup.hyper.rule = UpdateRule::lamb;
    check_joined(world);
  }
}

TEST_CASE("joined: draws of tensors whose scalars are the same in different steps") {
  World world = joined_world({1, 2});
  world.setup.stage = 1;
  world.setup.missing_grad = MissingGrad::skip;
  world.setup.param_dtype = DType::bf16;
  world.setup.param_rounding = ParamRounding::stochastic;
  world.setup.hyper.bias_correction = false;
  check_joined(world);
}

TEST_CASE(
    "joined: gradients of every type, odd numbers of them, added two at a time and in one pass") {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const int ranks : {1, 2}) {
      for (const std::int64_t micro_batches : {1, 7, 13}) {
        World world = joined_world({1, ranks});
        world.setup.stage = ranks == 1 ? 0 : 2;
        world.setup.micro_batches = micro_batches;
        world.setup.grad_dtype = dtype;
        check_joined(world);
      }
    }
  }
}

TEST_CASE("joined: sums large enough to bypass the caches") {
  for (const NormForm norm : {NormForm::chunk1024, NormForm::exact}) {
    World world = production_world({1, 1}, 3);
    world.tensors = {{{"large", {4100, 1024}}, {"odd", {1030}}, {"last", {77, 1000}}}};
    world.steps = 1;
    world.setup.hyper.norm = norm;
    world.setup.grad_dtype = DType::bf16;
    world.make = one_by_one(true);
    const WorldTruth truth = truth_of_one_rank(world);
    world.make = production(true);
    world.setup.exec.num_threads = 2;
    check_world(world, truth, "past the caches");
  }
}

TEST_CASE("joined: every form of the norm, and an overflow") {
  for (const NormForm norm : {NormForm::chunk1024, NormForm::exact, NormForm::one, NormForm::inf}) {
    for (const int ranks : {1, 3}) {
      World world = joined_world({1, ranks});
      world.setup.stage = 2;
      world.setup.hyper.norm = norm;
      world.setup.hyper.max_norm = 0.5;
      world.setup.hyper.clip_value = 0.01;
      world.setup.scaler.kind = LossScalerKind::dynamic;
      // In a skipped step the norm values of the fused form are local to each rank.
      world.overflow_step = ranks == 1 ? 2 : 0;
      check_joined(world);
    }
  }
}

TEST_CASE(
    "joined: TP ranks with neighbours of which one is replicated, and draws of neighbours that are "
    "cut") {
  for (const NormForm norm : {NormForm::exact, NormForm::inf}) {
    World world = joined_world({1, 2, 2, 1});
    world.tensors.params = {{"gain", {1024}},        {"row", {4, 1024}},   {"column", {64, 64}},
                            {"second", {64, 64}},    {"bias", {2048}},     {"odd", {1030}},
                            {"last row", {2, 1024}}, {"last gain", {1024}}};
    world.tensors.dims = {-1, 0, 1, 1, -1, -1, 0, -1};
    world.setup.stage = 1;
    world.setup.hyper.norm = norm;
    world.setup.param_dtype = DType::bf16;
    world.setup.param_rounding = ParamRounding::stochastic;
    check_joined(world);
  }
}

}  // namespace step_joined_test
