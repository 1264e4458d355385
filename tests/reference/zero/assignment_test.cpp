// Micro-batches of the ranks, and the number of gradient exchanges (R11).

#include "reference/zero/sharded/micro_batches.hpp"
#include "reference/zero/sharded/node_sum.hpp"
#include "tests/reference/zero/reference_world.hpp"

namespace assignment_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

using Numbers = std::vector<std::int64_t>;

struct Counts {
  int exchanges = 0;
  int gathers = 0;
  std::int64_t bytes_sent = 0;
  std::int64_t bytes_gathered = 0;
};

/// Forwards every call to another communicator and counts the exchanges.
class CountingCommunicator final : public Communicator {
 public:
  explicit CountingCommunicator(Communicator& other) : other_(other) {}
  int rank() const override { return other_.rank(); }
  int world_size() const override { return other_.world_size(); }
  std::string name() const override { return other_.name(); }
  void all_to_all(Span<const Span<const std::byte>> send,
                  Span<const Span<std::byte>> recv) override {
    counts.exchanges += 1;
    for (const Span<const std::byte> part : send)
      counts.bytes_sent += static_cast<std::int64_t>(part.size());
    other_.all_to_all(send, recv);
  }
  void all_gather(Span<const std::byte> mine, Span<const Span<std::byte>> recv) override {
    counts.gathers += 1;
    counts.bytes_gathered += static_cast<std::int64_t>(mine.size());
    other_.all_gather(mine, recv);
  }
  void broadcast(Span<std::byte> data, int root) override { other_.broadcast(data, root); }
  void all_reduce(Span<std::uint64_t> data, IntegerReduce op) override {
    other_.all_reduce(data, op);
  }
  void barrier() override { other_.barrier(); }
  void abort(const std::string& reason) override { other_.abort(reason); }

  Counts counts;

 private:
  Communicator& other_;
};

/// The communication of one reduce phase, on rank `rank`.
Counts reduced(World world, int rank, bool layered) {
  world.layered = layered;
  world.setup.hyper.norm = NormForm::exact;  // for any map
  Counts result;
  run_grid(world.grid, [&](GridPlace place) {
    CountingCommunicator counting(*place.comm);
    place.comm = &counting;
    WorldRank mine(world, place);
    mine.load();
    mine.optimizer->run_phase(Phase::prepare, mine.grads);
    counting.counts = {};
    mine.optimizer->run_phase(Phase::reduce, mine.grads);
    if (place.rank == rank) result = counting.counts;
  });
  return result;
}

}  // namespace

TEST_CASE("assignment: contiguous and strided, by hand") {
  ThreadWorld world(4);
  const auto comm = world.communicator(0);
  OptimizerSetup setup;
  setup.comm = comm.get();
  setup.micro_batches = 6;
  const auto all = [&](MicroBatchOrder order, int stage) {
    setup.order = order;
    setup.stage = stage;
    std::vector<Numbers> ranks;
    ranks.reserve(4);
    for (int rank = 0; rank < 4; ++rank) ranks.push_back(reference::micro_batches_of(setup, rank));
    return ranks;
  };
  const std::vector<Numbers> blocks = {{0}, {1, 2}, {3}, {4, 5}};
  const std::vector<Numbers> strides = {{0, 4}, {1, 5}, {2}, {3}};
  for (int stage = 0; stage <= 3; ++stage) {
    CHECK(all(MicroBatchOrder::contiguous, stage) == blocks);
    CHECK(all(MicroBatchOrder::strided, stage) == strides);
    CHECK(all(MicroBatchOrder::by_stage, stage) == (stage <= 1 ? blocks : strides));
  }
  CHECK(reference::num_micro_steps(setup) == 2);
  CHECK(reference::micro_batch_at(setup, 1, 1) == 5);
  CHECK(reference::micro_batch_at(setup, 2, 1) == std::nullopt);

  setup.cp = 2;  // ranks 0 and 1 share micro-batches, and so do 2 and 3
  setup.micro_batches = 3;
  CHECK(all(MicroBatchOrder::contiguous, 1) == std::vector<Numbers>{{0}, {0}, {1, 2}, {1, 2}});
  CHECK(all(MicroBatchOrder::strided, 1) == std::vector<Numbers>{{0, 2}, {0, 2}, {1}, {1}});
  CHECK(reference::tree_leaves_of(setup, 0) == Numbers{0, 4});
  CHECK(reference::tree_leaves_of(setup, 1) == Numbers{1, 5});
  CHECK(reference::tree_leaves_of(setup, 3) == Numbers{3});
  CHECK(reference::num_micro_steps(setup) == 2);

  const auto replicas = world.communicator(1);  // 4 instances of 4 ranks: 16 data ranks in 8 groups
  setup.replicas = replicas.get();
  setup.micro_batches = 9;
  CHECK(reference::micro_batches_of(setup, 15) == Numbers{7});
  CHECK(reference::micro_batches_of(setup, 1) == Numbers{0, 8});
  CHECK(reference::num_micro_steps(setup) == 2);
}

TEST_CASE("assignment: a rank with every other micro-batch cannot combine their nodes") {
  const std::vector<TreeNode> apart = reference::nodes_left({1, 3, 5});
  CHECK(apart == std::vector<TreeNode>{{0, 1}, {0, 3}, {0, 5}});
  CHECK(reference::nodes_left({0, 1, 2, 3, 6, 7, 8}) ==
        std::vector<TreeNode>{{2, 0}, {1, 3}, {0, 8}});
  CHECK(reference::nodes_left({1, 2}) ==
        std::vector<TreeNode>{{0, 1}, {0, 2}});  // neighbours, but not siblings
  CHECK(reference::nodes_left({}).empty());
}

TEST_CASE(
    "assignment: one reduction per step in stages 0 and 1, one per micro-step in stages 2 and 3") {
  for (const MicroBatchOrder order : {MicroBatchOrder::contiguous, MicroBatchOrder::strided}) {
    for (int stage = 0; stage <= 3; ++stage) {
      World world = reference_world(stage, {1, 2}, 5);
      world.shards = World::contract_map(1024);
      world.setup.order = order;
      const int micro_steps = 3;
      CHECK(reduced(world, 0, false).exchanges == (stage <= 1 ? 1 : micro_steps));
      CHECK(reduced(world, 0, true).exchanges ==
            (stage <= 1 ? 1 : micro_steps * 3));  // of every unit
      CHECK(reduced(world, 0, false).gathers == (stage == 0 ? 1 : 0));
      // Stage 3 gathers a unit for every visit: 4 forwards, 4 backwards.
      const int unit_gathers = stage == 3 ? micro_steps * 8 : 0;
      CHECK(reduced(world, 1, true).gathers == (stage == 0 ? 1 : unit_gathers));
    }
  }
}

TEST_CASE("assignment: persistent tensors are not gathered") {
  World world = reference_world(3, {1, 2}, 2);
  world.shards = dealt_map(Dealt::stretches);  // no padding is owned
  const auto bytes = [&](std::int64_t persistent_numel) {
    world.setup.persistent_numel = persistent_numel;
    return reduced(world, 0, true).bytes_gathered + reduced(world, 1, true).bytes_gathered;
  };
  constexpr int bf16_bytes = 2;
  constexpr int visits = 2;  // forward and backward of one micro-step; tensor a is in the tied unit
  CHECK(bytes(0) == bf16_bytes * visits * (2 * 37 + 2100 + 1 + 1025));
  CHECK(bytes(1) == bf16_bytes * visits * (2 * 37 + 2100 + 1025));
  CHECK(bytes(37) == bf16_bytes * visits * (2100 + 1025));
  CHECK(bytes(1 << 20) == 0);
}

TEST_CASE("assignment: nodes are combined before they are sent") {
  World world = reference_world(1, {1, 2}, 8);
  world.shards = dealt_map(Dealt::last_rank);
  const std::int64_t node = 7168 * 4;
  world.setup.order = MicroBatchOrder::contiguous;
  CHECK(reduced(world, 0, false).bytes_sent == node);  // micro-batches 0 to 3 are one node
  world.setup.order = MicroBatchOrder::strided;
  CHECK(reduced(world, 0, false).bytes_sent == 4 * node);  // 0, 2, 4 and 6 are four
}

}  // namespace assignment_test
