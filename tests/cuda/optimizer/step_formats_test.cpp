// State and master that are not stored in fp32 (R25): the same bits as on one rank, for every
// partition of the blocks, in phases and fused.

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "common/step/state_buffers.hpp"
#include "tests/cuda/optimizer/production_world.hpp"
#include "tests/cuda/optimizer/state_formats.hpp"
#include "tests/cuda/optimizer/state_tensors.hpp"
#include "tests/cuda/optimizer/whole_state_source.hpp"

namespace step_formats_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

/// A state that detects concurrent readers.
class OneReader final : public WholeStateSource {
 public:
  using WholeStateSource::WholeStateSource;

  void read(BufferId id, std::int64_t begin, Span<float> target) const override {
    if (readers_++ > 0) met_ = true;
    std::this_thread::yield();
    WholeStateSource::read(id, begin, target);
    --readers_;
  }
  bool met() const { return met_; }

 private:
  mutable std::atomic<int> readers_ = 0;
  mutable std::atomic<bool> met_ = false;
};

}  // namespace

TEST_CASE("formats of state: several threads store values that one thread at a time reads") {
  World world = production_world({}, 1);
  world.tensors = {{{"long", {400, 1024}}}};
  world.setup.state_formats = {StateFormat::e4m3, StateFormat::fp16, MasterFormat::fp32};
  world.setup.exec.num_threads = 4;
  check_ranks(world, "", [](WorldRank& rank) {
    const auto codes = [&] {
      std::vector<std::byte> all;
      for (const ExposedBuffer& buffer : rank.optimizer->storage()) {
        if (!is_state(buffer.id) && !is_state_scale(buffer.id)) continue;
        const auto* const bytes = static_cast<const std::byte*>(buffer.view.data);
        all.insert(all.end(), bytes, bytes + buffer.view.num_bytes());
      }
      return all;
    };
    rank.load();
    const std::vector<std::byte> whole = codes();
    const OneReader source(rank.initial.view());
    rank.optimizer = production()(rank.setup);
    rank.optimizer->load_state_from(source);
    CHECK(!source.met());
    CHECK(codes() == whole);
    return std::string();
  });
}

TEST_CASE(
    "formats of state: worlds, stages, partitions, phases and fused have the bits of one rank") {
  for (const StateFormats& state : state_formats) {
    World world = production_world({}, 3);
    world.setup.state_formats = state;
    world.setup.hyper.norm = NormForm::exact;
    world.setup.param_rounding = ParamRounding::stochastic;
    world.setup.missing_grad = MissingGrad::skip;
    world.overflow_step = 1;
    for (const bool fused : {false, true}) {
      world.make = production(fused);
      world.setup.stage = 0;
      world.grid.ranks = 1;
      const WorldTruth truth = truth_of_one_rank(world);
      for (const int stage : {0, 1, 2, 3}) {
        for (const int ranks : {1, 2, 3, 5}) {
          world.setup.stage = stage;
          world.grid.ranks = ranks;
          for (const bool cut : {false, true}) {
            world.shards = cut ? dealt_map(Dealt::stretches) : World::contract_map(2048);
            check_world(world, truth);
          }
        }
      }
    }
  }
}

TEST_CASE("offloaded state with scales is an error on TP ranks; bf16 is not") {
  World world = production_world({1, 2, 2, 1}, 3);
  world.tensors = split_blocks();
  world.shards = ragged_map;
  world.setup.hyper.norm = NormForm::exact;
  world.setup.state_formats = {StateFormat::bf16, StateFormat::bf16, MasterFormat::bf16};
  world.setup.offload.fraction = 0.5;
  check_against_one_rank(world);
  world.setup.state_formats.exp_avg = StateFormat::e4m3;
  CHECK_THROWS_WITH_AS(check_ranks(world, "",
                                   [](WorldRank& rank) {
                                     rank.load();
                                     return std::string();
                                   }),
                       doctest::Contains("cannot be offloaded on 2 TP ranks"), Error);
}

}  // namespace step_formats_test
