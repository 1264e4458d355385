// Memory of a rank in a step, against numbers by hand: cuda/README.md, "Memory of a step".

#include "tests/cuda/optimizer/production_world.hpp"

namespace step_memory_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

std::int64_t of(const BytesByClass& bytes, MemoryClass kind) {
  return bytes[static_cast<std::size_t>(kind)];
}

/// Memory of every rank after two steps.
std::vector<MemoryUse> memory_of(const OptimizerSetup& setup, int ranks,
                                 std::int64_t bucket_numel) {
  World world = production_world({1, ranks}, 0);
  world.setup = setup;
  world.shards = World::contract_map(bucket_numel);
  std::vector<MemoryUse> use(ranks);
  run_grid(world.grid, [&](const GridPlace& place) {
    WorldRank rank(world, place);
    rank.load();
    rank.optimizer->step(rank.grads);
    rank.optimizer->step(rank.grads);
    use[place.number] = rank.optimizer->memory();
  });
  return use;
}

}  // namespace

TEST_CASE("memory at rest: as given by the stage, element by element") {
  const std::int64_t all = odd_layout().padded_numel();
  for (const int world : {1, 3, 8}) {
    const ShardMap shards(all, world, 2048);
    for (const int stage : {0, 1, 2, 3}) {
      CAPTURE(world);
      CAPTURE(stage);
      OptimizerSetup setup;
      setup.stage = stage;
      setup.micro_batches = 3;
      setup.persistent_numel = 77;  // "a" (77), "b" (3), "scalar" (1)
      const std::vector<MemoryUse> use = memory_of(setup, world, 2048);
      for (int rank = 0; rank < world; ++rank) {
        const std::int64_t own = stage == 0 ? all : shards.shard_numel(rank);
        const BytesByClass& now = use[rank].now;
        CHECK(of(now, MemoryClass::master) == 4 * own);
        CHECK(of(now, MemoryClass::state) == 8 * own);
        CHECK(of(now, MemoryClass::param_shard) == 2 * own);
        CHECK(of(now, MemoryClass::grad_sum) == 4 * own);
        // A rank that owns everything shows the parameters in its shard.
        const bool in_shard = stage == 0 || (world == 1 && stage < 3);
        CHECK(of(now, MemoryClass::param_full) == (stage == 3 ? 2 * 81 : in_shard ? 0 : 2 * all));
        CHECK(of(now, MemoryClass::grad) == 0);
      }
    }
  }
}

TEST_CASE("nodes of a step: the stack of R11, a leaf that is added immediately needs no memory") {
  const std::int64_t all = odd_layout().padded_numel();
  struct Case {
    std::int64_t micro_batches;
    MicroBatchOrder order;
    std::vector<std::int64_t> kept;  ///< stage 1: most nodes of the whole model on a rank
    std::int64_t owned;              ///< stage 2: most nodes of all buckets of the owner
  };
  constexpr auto contiguous = MicroBatchOrder::contiguous;
  constexpr auto strided = MicroBatchOrder::strided;
  const std::vector<Case> cases = {
      {1, strided, {1, 0}, 1},  // one rank has no leaf
      {4,
       contiguous,
       {1, 1},
       2},  // 0 1 | 2 3: second leaves are added at once; the owner has a stack for each rank
      {4,
       strided,
       {2, 2},
       1},  // 0 2 | 1 3: no nodes combine on a rank; on the owner 01, and 2 and 3 arrive together
      {7, contiguous, {2, 3}, 5},  // 0 1 2 | 3 4 5 6: 01, 2 and 3, 45, 6
      {8, strided, {4, 4}, 2},     // on the owner 0123 and 45; 6 and 7 arrive together
  };
  for (const Case& c : cases) {
    for (const int stage : {1, 2}) {
      CAPTURE(c.micro_batches);
      CAPTURE(static_cast<int>(c.order));
      CAPTURE(stage);
      OptimizerSetup setup;
      setup.windows = Windows::off;
      setup.stage = stage;
      setup.order = c.order;
      setup.micro_batches = c.micro_batches;
      const std::vector<MemoryUse> use =
          memory_of(setup, 2, 1024);  // ten buckets of one chunk: rank 1 owns all
      for (std::size_t rank = 0; rank < 2; ++rank) {
        const std::int64_t owned = rank == 0 ? 0 : c.owned * all;
        CHECK(of(use[rank].peak, MemoryClass::grad_nodes) ==
              4 * (stage == 1 ? c.kept[rank] * all : owned));
        CHECK(of(use[rank].now, MemoryClass::grad_nodes) ==
              of(use[rank].peak, MemoryClass::grad_nodes));
      }
    }
  }
}

TEST_CASE("nodes of a rank that is alone: the last gradient is added in place") {
  const std::int64_t all = odd_layout().padded_numel();
  const std::vector<std::pair<std::int64_t, std::int64_t>> nodes_by_leaves = {
      {1, 0}, {2, 1}, {3, 1}, {4, 2}, {5, 2}, {8, 3}, {9, 3}};
  for (const auto& entry :
       nodes_by_leaves) {  // clang does not let a lambda have structured bindings
    const std::int64_t micro_batches = entry.first;
    const std::int64_t nodes = entry.second;
    for (const int stage : {0, 1, 2, 3}) {
      CAPTURE(micro_batches);
      CAPTURE(stage);
      OptimizerSetup setup;
      setup.stage = stage;
      setup.micro_batches = micro_batches;
      const MemoryUse use = memory_of(setup, 1, 1024).front();
      CHECK(of(use.now, MemoryClass::grad_nodes) == 4 * nodes * all);
      CHECK(of(use.peak, MemoryClass::grad_nodes) == 4 * nodes * all);
    }
  }
}

TEST_CASE("message buffers: none for a single rank, otherwise one bucket") {
  OptimizerSetup setup;
  setup.windows = Windows::off;
  setup.micro_batches = 4;
  for (const int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    setup.stage = stage;
    CHECK(of(memory_of(setup, 1, 2048)[0].peak, MemoryClass::comm_buffer) == 0);
    // Two ranks, buckets of 2048: 1024 elements each. Contiguous: both have one node, sent without
    // packing; strided in stages 2 and 3: a leaf arrives.
    const std::vector<MemoryUse> use = memory_of(setup, 2, 2048);
    for (const MemoryUse& rank : use) CHECK(of(rank.peak, MemoryClass::comm_buffer) == 4 * 1024);
  }
  // Strided at the boundary: two nodes each way, packed.
  setup.stage = 1;
  setup.order = MicroBatchOrder::strided;
  for (const MemoryUse& rank : memory_of(setup, 2, 2048)) {
    CHECK(of(rank.peak, MemoryClass::comm_buffer) == 2 * 2 * 4 * 1024);
  }
  // 16-bit gradients are sent unchanged.
  setup.stage = 2;
  setup.grad_dtype = DType::bf16;
  for (const MemoryUse& rank : memory_of(setup, 2, 2048)) {
    CHECK(of(rank.peak, MemoryClass::comm_buffer) == 2 * 1024);
  }
}

}  // namespace step_memory_test
