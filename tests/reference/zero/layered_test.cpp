// Sources that run layer by layer: the same bits, with whole parameters or with one unit at a time.

#include <array>

#include "reference/zero/sharded/unit_params.hpp"
#include "tests/reference/alone.hpp"

namespace layered_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

void check_layered(World world) {
  world.layered = true;
  world.releases = world.setup.stage == 3;
  check_against_dense(world);
}

/// The same gradients for a rank without others.
NumberedGrads layered_source() { return {RankModel(odd_tensors()), {.layered = true}}; }

OptimizerSetup stage_3(const FlatLayout& layout, const ShardMap& shards, Communicator& comm) {
  OptimizerSetup setup;
  setup.layout = &layout;
  setup.shards = &shards;
  setup.comm = &comm;
  setup.stage = 3;
  return setup;
}

}  // namespace

TEST_CASE("layered: every stage, order and world equals the dense optimizer") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const MicroBatchOrder order : {MicroBatchOrder::contiguous, MicroBatchOrder::strided}) {
      for (const int world_size : {1, 2, 3, 5, 8}) {
        for (const std::int64_t micro_batches : {1, 3, 7}) {
          World world = reference_world(stage, {1, world_size}, micro_batches);
          world.setup.order = order;
          check_layered(world);
        }
      }
    }
  }
}

TEST_CASE("layered: 16-bit gradients, other parameters, persistent tensors, bins") {
  for (const auto& [param, leaf] :
       {std::pair{DType::fp32, DType::bf16}, std::pair{DType::fp16, DType::fp16},
        std::pair{DType::bf16, DType::bf16}}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const std::int64_t persistent_numel : {0, 37, 1025, 1 << 20}) {
        World world = reference_world(stage, {1, 3}, 5);
        world.shards = World::contract_map(1024);
        world.setup.grad_dtype = leaf;
        world.setup.param_dtype = param;
        world.setup.persistent_numel = persistent_numel;
        world.setup.grad_sum = persistent_numel == 1025 ? GradSum::binned : GradSum::tree;
        check_layered(world);
      }
    }
  }
}

TEST_CASE("layered: units with any assignment of elements to ranks") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const Dealt dealt : {Dealt::stretches, Dealt::tensors, Dealt::last_rank}) {
      for (const int world_size : {2, 5}) {
        World world = reference_world(stage, {1, world_size}, 3);
        world.shards = dealt_map(dealt);
        world.setup.persistent_numel = 37;
        world.setup.hyper.norm = NormForm::exact;
        check_layered(world);
      }
    }
  }
}

TEST_CASE("layered: a gathered unit is read only under the version it was gathered under") {
  reference::GatheredUnit unit(3, DType::fp32);
  CHECK(error_code_of([&] { unit.read(0); }) == ErrorCode::internal);  // before the first gather
  const TensorView memory = unit.open(7);
  const std::array<float, 3> values = {1, 2, 3};
  std::memcpy(memory.data, values.data(), sizeof(values));
  CHECK(read<std::array<float, 3>>(unit.read(7)) == values);
  CHECK(error_code_of([&] { unit.read(8); }) == ErrorCode::internal);
  CHECK(error_code_of([&] { unit.read(6); }) == ErrorCode::internal);
  unit.release();
  CHECK(error_code_of([&] { unit.read(7); }) == ErrorCode::internal);
  for (const float value : read<std::array<float, 3>>(memory)) CHECK(std::isnan(value));
}

TEST_CASE("layered: parameters that were cast after the gather are not read") {
  const FlatLayout layout = odd_layout();
  const ShardMap shards(layout.padded_numel(), 1, 1024);
  const auto comm = make_self_communicator();
  const OptimizerSetup setup = stage_3(layout, shards, *comm);
  GuardedBuffer shard(layout.padded_numel(), DType::bf16);
  std::uint64_t version = 1;
  reference::UnitParams params(setup, {{0, 1024}, {1024, 7168}},
                               {{shard.view(), {{0, 7168}}}, {}, &version});
  shard.as<bf16>()[1024] = {0x4040};
  params.gather(1);
  CHECK(element_bits(params.view(1), 0) == 0x4040);
  version = 2;
  CHECK(error_code_of([&] { params.view(1); }) == ErrorCode::internal);
  params.gather(1);
  CHECK(element_bits(params.view(1), 0) == 0x4040);
  params.release(1);
  CHECK(error_code_of([&] { params.view(1); }) == ErrorCode::internal);
}

TEST_CASE("layered: in stage 3 layers read parameters that an observer wrote") {
  // The shard of one rank is everything: an overwritten parameter must change the gradient of its
  // element.
  Alone rank(3);
  NumberedGrads source = layered_source();
  const auto gradient = [&](bool overwrite, BufferId id, std::int64_t persistent_numel) {
    rank.setup.persistent_numel = persistent_numel;
    rank.make();
    if (overwrite) write(rank.view(id), bf16{0x4040});
    rank.optimizer->run_phase(Phase::prepare, source);
    rank.optimizer->run_phase(Phase::reduce, source);
    return rank.value(BufferId::grad_sum);
  };
  CHECK(gradient(false, BufferId::param_shard, 0) == gradient(false, BufferId::param_shard, 37));
  CHECK(gradient(true, BufferId::param_shard, 0) != gradient(false, BufferId::param_shard, 0));
  // Element 0 is in tensor a, which is stored whole with 37: its shard is no longer read.
  CHECK(gradient(true, BufferId::param_shard, 37) == gradient(false, BufferId::param_shard, 0));
  CHECK(gradient(true, BufferId::param_full, 37) == gradient(true, BufferId::param_shard, 0));
}

TEST_CASE("layered: invalid units are rejected") {
  for (int stage = 0; stage <= 3; ++stage) {
    const auto refuses = [&](std::vector<FlatRange> cut, std::vector<int> order) {
      Alone rank(stage);
      rank.make();
      NumberedGrads source = layered_source();
      source.cut = std::move(cut);
      source.order = std::move(order);
      rank.optimizer->run_phase(Phase::prepare, source);
      ZP_CHECK_INVALID(rank.optimizer->run_phase(Phase::reduce, source));
    };
    refuses({{0, 1024}, {1024, 4096}}, {0, 1});  // tensors one and c are missing
    refuses({{0, 1024}, {2048, 7168}}, {0, 1});  // a gap
    refuses({{0, 2048}, {2048, 7168}}, {0, 1});  // splits tensor b
    refuses({{0, 4096}, {1024, 7168}}, {0, 1});  // overlap
    refuses({{0, 1024}, {1024, 7168}}, {0});     // never visits the second
    refuses({{0, 1024}, {1024, 7168}}, {0, 2});  // there is no third
    refuses({{0, 1024}, {1024, 7168}}, {-1, 0, 1});
    refuses({{0, 8192}}, {0});  // ends after the layout
  }
}

TEST_CASE("layered: stage 3 stores nothing whole, or only the persistent tensors") {
  const FlatLayout layout = odd_layout();
  const ShardMap shards(layout.padded_numel(), 1, 1024);
  const auto comm = make_self_communicator();
  const InitialState initial(layout);
  OptimizerSetup setup = stage_3(layout, shards, *comm);
  using Ranges = std::vector<FlatRange>;
  const auto kept = [&](std::int64_t persistent_numel) {
    setup.persistent_numel = persistent_numel;
    const auto optimizer = reference::make_distributed_optimizer(setup);
    optimizer->load_state(initial.view());
    const std::vector<ExposedBuffer> shown = optimizer->exposed(Phase::gather);
    CHECK(shown.empty() == !has(*optimizer, BufferId::param_full));
    return shown.empty() ? Ranges{} : shown[0].ranges;
  };
  CHECK(kept(0) == Ranges{});
  CHECK(kept(1) == Ranges{{4096, 4097}});
  CHECK(kept(36) == Ranges{{4096, 4097}});
  CHECK(kept(37) == Ranges{{0, 37}, {4096, 4097}});
  CHECK(kept(2100) == Ranges{{0, 37}, {1024, 3124}, {4096, 4097}, {5120, 6145}});
  setup.stage = 2;
  CHECK(kept(37) == Ranges{{0, 7168}});
}

}  // namespace layered_test
