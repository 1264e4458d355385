// Binned and native gradient sums in a whole step.

#include <algorithm>

#include "common/comm/wrapped_communicator.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/production_world.hpp"

namespace step_sums_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

constexpr MicroBatchOrder orders[] = {MicroBatchOrder::contiguous, MicroBatchOrder::strided};

/// A group whose library adds no floats, and whose ranks share no memory.
class PlainCommunicator : public WrappedCommunicator {
 public:
  using WrappedCommunicator::WrappedCommunicator;

  std::unique_ptr<SharedWindow> shared_window(std::int64_t num_bytes) override {
    return Communicator::shared_window(num_bytes);
  }
  void native_reduce_scatter(Span<const float> send, Span<const std::int64_t> counts,
                             Span<float> recv) override {
    Communicator::native_reduce_scatter(send, counts, recv);
  }
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
      out.push_back(std::as_bytes(send.subspan(at, counts[r])));
      in.push_back(std::as_writable_bytes(Span<float>(arrived[r])));
      at += static_cast<std::size_t>(counts[r]);
    }
    REQUIRE(at == send.size());
    inner_.all_to_all(out, in);
    std::ranges::fill(recv, 0.0F);
    for (const std::vector<float>& part : arrived) {
      for (std::size_t i = 0; i < recv.size(); ++i) recv[i] += part[i];
    }
  }
};

}  // namespace

TEST_CASE("binned: the bits of one rank, in any world, stage, assignment and shard map") {
  for (const int stage : {0, 1, 2, 3}) {
    World world = production_world({}, 7);
    world.setup.stage = stage;
    world.setup.hyper.norm = NormForm::exact;
    world.setup.grad_dtype = stage == 1 ? DType::bf16 : DType::fp32;
    const StepTruth tree = std::move(truth_of_one_rank(world)[1]);
    world.setup.grad_sum = GradSum::binned;
    const WorldTruth truth = truth_of_one_rank(world);
    bool differs = false;
    for (const Piece& piece : odd_layout().pieces({{0, odd_layout().padded_numel()}})) {
      for (std::int64_t i = piece.global_begin; i < piece.global_begin + piece.numel; ++i)
        differs = differs || element_bits(tree.at(BufferId::grad_sum), i) !=
                                 element_bits(truth[1].at(BufferId::grad_sum), i);
    }
    // Another contract; bf16 gradients are so short that both are exact.
    if (stage != 1) CHECK(differs);
    for (const int ranks : {1, 2, 3, 8}) {
      for (const MicroBatchOrder order : orders) {
        for (const bool ragged : {false, true}) {
          world.grid.ranks = ranks;
          world.setup.order = order;
          world.shards = ragged ? ragged_map : World::contract_map(2048);
          check_world(world, truth, ragged ? "ragged" : "");
        }
      }
    }
  }
}

TEST_CASE("native: every gradient once, by values that add up without rounding in any order") {
  World world = production_world({}, 7);
  world.setup.hyper.norm = NormForm::exact;
  world.exact = true;
  const WorldTruth truth = truth_of_one_rank(world);
  world.setup.grad_sum = GradSum::native;
  world.wrap = [](Communicator& ranks) { return std::make_unique<AddingCommunicator>(ranks); };
  for (const int stage : {0, 1, 2, 3}) {
    for (const MicroBatchOrder order : orders) {
      for (const Grid& grid : {Grid{1, 1}, Grid{1, 3}, Grid{2, 3}, Grid{1, 8}}) {
        for (const bool ragged : {false, true}) {
          world.setup.stage = stage;
          world.setup.order = order;
          world.grid = grid;
          world.shards = ragged ? ragged_map : World::contract_map(2048);
          check_world(world, truth, ragged ? "ragged" : "");
        }
      }
    }
  }
}

TEST_CASE("native: a library that does not add floats is an error in the step") {
  World world = production_world({1, 2}, 1);
  world.setup.grad_sum = GradSum::native;
  world.wrap = [](Communicator& ranks) { return std::make_unique<PlainCommunicator>(ranks); };
  run_grid(world.grid, [&](const GridPlace& place) {
    WorldRank rank(world, place);
    rank.load();
    rank.optimizer->run_phase(Phase::prepare, rank.grads);
    expect_error(ErrorCode::unavailable,
                 [&] { rank.optimizer->run_phase(Phase::reduce, rank.grads); });
  });
}

}  // namespace step_sums_test
