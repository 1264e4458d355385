// One setting in many worlds.

#include <array>

#include "tests/reference/zero/reference_world.hpp"

namespace distributed_optimizer_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

void check_stage(int stage) {
  constexpr std::array<std::array<DType, 2>, 4> dtypes = {{{DType::fp32, DType::bf16},
                                                           {DType::bf16, DType::fp32},
                                                           {DType::fp16, DType::fp16},
                                                           {DType::bf16, DType::bf16}}};
  std::size_t pair = 0;
  for (const int world_size : {1, 2, 3, 5, 8}) {  // 8 ranks for 7 chunks
    for (const std::int64_t bucket_numel : {1024, 4096, 1 << 20}) {
      for (const std::int64_t micro_batches : {1, 3, 8}) {
        for (int i = 0; i < 2; ++i) {
          World world = reference_world(stage, {1, world_size}, micro_batches);
          world.shards = World::contract_map(bucket_numel);
          world.setup.grad_dtype = dtypes[pair % dtypes.size()][0];
          world.setup.param_dtype = dtypes[pair++ % dtypes.size()][1];
          check_against_dense(world);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("distributed: stage 0 equals the dense optimizer") { check_stage(0); }
TEST_CASE("distributed: stage 1 equals the dense optimizer") { check_stage(1); }
TEST_CASE("distributed: stage 2 equals the dense optimizer") { check_stage(2); }
TEST_CASE("distributed: stage 3 equals the dense optimizer") { check_stage(3); }

TEST_CASE("distributed: any assignment in any stage equals the dense optimizer") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const MicroBatchOrder order : {MicroBatchOrder::contiguous, MicroBatchOrder::strided}) {
      for (const int world_size : {1, 2, 3, 5, 8}) {
        for (const std::int64_t micro_batches : {1, 3, 7, 11}) {
          World world = reference_world(stage, {1, world_size}, micro_batches);
          world.shards = World::contract_map(4096);
          world.setup.order = order;
          check_against_dense(world);
        }
      }
    }
  }
}

TEST_CASE("distributed: persistent tensors are whole on every rank") {
  // 1: the single number; 37: also tensor a; 2000: all but tensor b; the largest: all.
  for (const std::int64_t persistent_numel : {1, 37, 2000, 1 << 20}) {
    for (const int world_size : {1, 3, 8}) {
      World world = reference_world(3, {1, world_size}, 3);
      world.shards = World::contract_map(1024);
      world.setup.persistent_numel = persistent_numel;
      check_against_dense(world);
    }
  }
}

TEST_CASE("distributed: any shard map equals the dense optimizer") {
  std::size_t turn = 0;
  for (int stage = 0; stage <= 3; ++stage) {
    for (const Dealt dealt : {Dealt::stretches, Dealt::tensors, Dealt::last_rank}) {
      for (const int world_size : {1, 2, 3, 8}) {
        for (const MicroBatchOrder order :
             {MicroBatchOrder::contiguous, MicroBatchOrder::strided}) {
          World world = reference_world(stage, {1, world_size},
                                        std::array<std::int64_t, 3>{1, 5, 3}[turn % 3]);
          world.shards = dealt_map(dealt);
          world.setup.order = order;
          world.setup.persistent_numel = turn % 2 == 0 ? 37 : 0;
          world.setup.hyper.norm =
              std::array<NormForm, 3>{NormForm::exact, NormForm::one, NormForm::inf}[turn % 3];
          if (dealt == Dealt::last_rank) world.setup.hyper.norm = NormForm::chunk1024;
          world.setup.grad_sum = turn % 5 == 0 ? GradSum::binned : GradSum::tree;
          world.setup.param_rounding =
              turn % 4 == 0 ? ParamRounding::stochastic : ParamRounding::nearest;
          check_against_dense(world);
          ++turn;
        }
      }
    }
  }
}

}  // namespace distributed_optimizer_test
