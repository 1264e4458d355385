// Binned and native gradient sums in a whole step.

#include "tests/cuda/step_world.hpp"

#include <doctest.h>

#include "tests/cuda/expect_error.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

constexpr MicroBatchOrder orders[] = {MicroBatchOrder::contiguous, MicroBatchOrder::strided};

/// A group whose library adds no floats.
class PlainCommunicator : public Communicator {
 public:
  explicit PlainCommunicator(Communicator& ranks) : ranks_(ranks) {}
  int rank() const override { return ranks_.rank(); }
  int world_size() const override { return ranks_.world_size(); }
  std::string name() const override { return ranks_.name(); }
  void all_to_all(Span<const Span<const std::byte>> send, Span<const Span<std::byte>> recv) override {
    ranks_.all_to_all(send, recv);
  }
  void all_gather(Span<const std::byte> mine, Span<const Span<std::byte>> recv) override {
    ranks_.all_gather(mine, recv);
  }
  void broadcast(Span<std::byte> data, int root) override { ranks_.broadcast(data, root); }
  void all_reduce(Span<std::uint64_t> data, IntegerReduce op) override { ranks_.all_reduce(data, op); }
  void barrier() override { ranks_.barrier(); }
  void abort(const std::string& reason) override { ranks_.abort(reason); }

 protected:
  Communicator& ranks_;
};

/// A group whose library adds floats, in the order of ranks.
class AddingCommunicator final : public PlainCommunicator {
 public:
  using PlainCommunicator::PlainCommunicator;

  void native_reduce_scatter(Span<const float> send, Span<const std::int64_t> counts,
                             Span<float> recv) override {
    const auto world = static_cast<std::size_t>(world_size());
    std::vector<std::vector<float>> arrived(world, std::vector<float>(recv.size()));
    std::vector<Span<const std::byte>> out;
    std::vector<Span<std::byte>> in;
    std::size_t at = 0;
    for (std::size_t r = 0; r < world; ++r) {
      out.push_back(std::as_bytes(send.subspan(at, static_cast<std::size_t>(counts[r]))));
      in.push_back(std::as_writable_bytes(Span<float>(arrived[r])));
      at += static_cast<std::size_t>(counts[r]);
    }
    REQUIRE(at == send.size());
    ranks_.all_to_all(out, in);
    std::ranges::fill(recv, 0.0F);
    for (const std::vector<float>& part : arrived) {
      for (std::size_t i = 0; i < recv.size(); ++i) recv[i] += part[i];
    }
  }
};

}  // namespace

TEST_CASE("binned: the bits of one rank, in any world, stage, assignment and shard map") {
  const FlatLayout& layout = odd_layout();
  for (const int stage : {0, 1, 2, 3}) {
    StepRun run{layout, {}};
    run.setup.stage = stage;
    run.setup.grad_sum = GradSum::binned;
    run.setup.hyper.norm = NormForm::exact;
    run.setup.micro_batches = 7;
    run.setup.leaf_dtype = stage == 1 ? DType::bf16 : DType::fp32;
    const StepResult want = run.alone();
    StepRun tree = run;
    tree.setup.grad_sum = GradSum::tree;
    // Another contract; bf16 leaves are so short that both are exact.
    if (stage != 1) CHECK(tree.alone().sums.values != want.sums.values);
    for (const int world : {1, 2, 3, 8}) {
      for (const MicroBatchOrder order : orders) {
        for (const bool ragged : {false, true}) {
          CAPTURE(stage);
          CAPTURE(world);
          CAPTURE(ragged);
          run.setup.order = order;
          const StepResult got = run.on(
              world, ragged ? ragged_map(layout, world) : ShardMap(layout.padded_numel(), world, 2048));
          CHECK(got.sums.problem == "");
          CHECK(got.rest.problem == "");
          CHECK(got.sums.values == want.sums.values);
          CHECK(got.rest.values == want.rest.values);
        }
      }
    }
  }
}

TEST_CASE("native: every leaf once, by values that add up without rounding in any order") {
  const FlatLayout& layout = odd_layout();
  const auto exact = [](std::int64_t u, std::int64_t i) { return leaf_value(u, i, true); };
  StepRun tree{layout, {}};
  tree.setup.micro_batches = 7;
  tree.setup.hyper.norm = NormForm::exact;
  const auto run = [&](const OptimizerSetup& setup, int instances, int world, const ShardMap& shards) {
    Collector sums(layout);
    Collector rest(layout);
    const FirstState first(layout);
    std::vector<std::unique_ptr<ThreadWorld>> comms, replicas;
    for (int i = 0; i < instances; ++i) comms.push_back(quick_world(world));
    for (int r = 0; r < world; ++r) replicas.push_back(quick_world(instances));
    const auto ranks = quick_world(instances * world);
    run_ranks(*ranks, [&](Communicator& all) {
      const int instance = all.rank() / world;
      const int rank = all.rank() % world;
      const auto comm = comms[static_cast<std::size_t>(instance)]->communicator(rank);
      const auto replica = replicas[static_cast<std::size_t>(rank)]->communicator(instance);
      AddingCommunicator adding(*comm);
      AddingCommunicator adding_replicas(*replica);
      OptimizerSetup mine = setup;
      mine.layout = &layout;
      mine.shards = &shards;
      mine.comm = &adding;
      if (instances > 1) mine.replicas = &adding_replicas;
      const auto optimizer = cuda::make_distributed_optimizer(mine);
      NumberedLeaves leaves(layout, DType::fp32, exact);
      run_steps(*optimizer, leaves, first.state(), 2, sums, rest);
    });
    return StepResult{sums.result(), rest.result(setup.stage == 3)};
  };
  for (const int stage : {0, 1, 2, 3}) {
    OptimizerSetup setup = tree.setup;
    StepResult want = run(setup, 1, 1, ShardMap(layout.padded_numel(), 1, 2048));
    if (stage == 3) want.rest.values.erase(BufferId::param_full);
    setup.stage = stage;
    setup.grad_sum = GradSum::native;
    for (const MicroBatchOrder order : orders) {
      setup.order = order;
      for (const auto& [instances, world] :
           std::vector<std::pair<int, int>>{{1, 1}, {1, 3}, {2, 3}, {1, 8}}) {
        for (const bool ragged : {false, true}) {
          const ShardMap shards =
              ragged ? ragged_map(layout, world) : ShardMap(layout.padded_numel(), world, 2048);
          const StepResult got = run(setup, instances, world, shards);
          CHECK(got.sums.problem == "");
          CHECK(got.rest.problem == "");
          // A rank without a micro-batch adds +0, so signs of zeros may differ and nothing else.
          int wrong = 0;
          for (std::size_t i = 0; i < want.sums.values.at(BufferId::grad_sum).size(); ++i) {
            const auto value = [&](const StepResult& result) {
              return std::bit_cast<float>(
                  static_cast<std::uint32_t>(result.sums.values.at(BufferId::grad_sum)[i]));
            };
            wrong += value(got) == value(want) ? 0 : 1;
          }
          CHECK(wrong == 0);
          CHECK(got.rest.values == want.rest.values);
        }
      }
    }
  }
}

TEST_CASE("a library that does not add floats says so in the step") {
  const FlatLayout& layout = odd_layout();
  const ShardMap two(layout.padded_numel(), 2, 2048);
  ThreadWorld pair(2);
  run_ranks(pair, [&](Communicator& ranks) {
    PlainCommunicator plain(ranks);
    OptimizerSetup setup;
    setup.layout = &layout;
    setup.comm = &plain;
    setup.shards = &two;
    setup.grad_sum = GradSum::native;
    const auto optimizer = cuda::make_distributed_optimizer(setup);
    optimizer->load_state(FirstState(layout).state());
    NumberedLeaves leaves(layout, DType::fp32);
    optimizer->run_phase(Phase::prepare, leaves);
    expect_error(ErrorCode::unavailable, [&] { optimizer->run_phase(Phase::reduce, leaves); });
  });
}
