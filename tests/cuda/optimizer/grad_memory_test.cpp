// Storage of gradients before G: node slots that survive steps, and gradients that are read in
// place.

#include <doctest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "common/base/float_formats.hpp"
#include "common/comm/self.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "cuda/host/base/isa.hpp"
#include "cuda/host/base/stream_copy.hpp"
#include "cuda/reduce/node_store.hpp"
#include "tests/cuda/every_exec.hpp"
#include "tests/cuda/expect_error.hpp"

namespace grad_memory_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::cuda;
using namespace zeroproof::tests;

constexpr float no_number = std::numeric_limits<float>::quiet_NaN();

/// Gradients in one buffer that is overwritten for every micro-batch.
class OneBufferGrads final : public GradSource {
 public:
  OneBufferGrads(std::int64_t numel, DType dtype) : leaf_(numel, dtype) {}

  TensorView micro_batch_grad(std::int64_t micro_batch) override {
    for (std::int64_t i = 0; i < leaf_.numel(); ++i) {
      const auto value =
          static_cast<float>((i * 7 + micro_batch * 13 + step * 5) % 61 - 30) * 0x1p-8F;
      store(i, value);
    }
    return leaf_.view();
  }
  void store(std::int64_t i, float value) { store_element(leaf_.view(), i, value); }

  std::int64_t step = 0;

 private:
  GuardedBuffer leaf_;
};

/// One rank of three tensors, one of them longer than a block.
struct AloneRank {
  explicit AloneRank(std::int64_t micro_batches, DType grad_dtype = DType::fp32, int stage = 1,
                     bool fused = true)
      : layout({{"a", {1000}}, {"b", {40, 1024}}, {"c", {3}}}),
        shards(layout.padded_numel(), 1, 4096),
        comm(make_self_communicator()),
        grads(layout.padded_numel(), grad_dtype) {
    setup.layout = &layout;
    setup.shards = &shards;
    setup.comm = comm.get();
    setup.stage = stage;
    setup.micro_batches = micro_batches;
    setup.grad_dtype = grad_dtype;
    setup.hyper.max_norm = 0.5;
    setup.hyper.lr = 0.01;
    setup.guards = true;
    optimizer = make_distributed_optimizer(setup, Space::host, fused);
    const std::vector<float> ones(layout.padded_numel(), 1.0F);
    const std::vector<float> zeros(ones.size(), 0.0F);
    FullState state;
    state.master = ones;
    state.slots = {zeros, zeros};
    optimizer->load_state(state);
  }

  void run(Phase first, Phase last) {
    for (const Phase phase : all_phases) {
      if (phase >= first && phase <= last) optimizer->run_phase(phase, grads);
    }
  }
  std::vector<float> values(Phase phase) {
    const ExposedBuffer buffer = optimizer->exposed(phase).front();
    std::vector<float> values;
    for (const Piece& piece : layout.pieces({{0, layout.padded_numel()}})) {
      const auto* from = static_cast<const float*>(buffer.view.data) + piece.local_begin;
      values.insert(values.end(), from, from + piece.numel);
    }
    return values;
  }
  std::vector<float> master() {
    for (const ExposedBuffer& buffer : optimizer->exposed(Phase::update)) {
      if (buffer.id != BufferId::master) continue;
      const auto* from = static_cast<const float*>(buffer.view.data);
      return {from, from + 1000};
    }
    return {};
  }

  FlatLayout layout;
  ShardMap shards;
  std::unique_ptr<Communicator> comm;
  OneBufferGrads grads;
  OptimizerSetup setup;
  std::unique_ptr<DistributedOptimizer> optimizer;
};

bool all_nan(Span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return value != value; });
}

}  // namespace

TEST_CASE("ReductionSchedule: slots of every micro-step, by hand") {
  // Leaves 0 1 2 3 4 5 6: 0 is copied, 1 added; 2 is copied beside 01; 3 completes 0123 at once.
  ReductionSchedule::Steps steps;
  for (std::int64_t i = 0; i < 7; ++i) steps.push_back({{0, i}});
  const ReductionSchedule moves = ReductionSchedule::tree(steps);
  CHECK(moves.slots() == 3);  // 0123, 45 and 6
  const std::vector<std::size_t> slots = {0, 0, 1, 0, 1, 1, 2};
  const std::vector<std::size_t> operands = {1, 2, 1, 3, 1, 2, 1};
  for (std::size_t i = 0; i < 7; ++i) {
    CAPTURE(i);
    REQUIRE(moves.of(static_cast<std::int64_t>(i)).size() == 1);
    CHECK(moves.of(static_cast<std::int64_t>(i)).front().slot == slots[i]);
    CHECK(moves.of(static_cast<std::int64_t>(i)).front().operands.size() == operands[i]);
  }
  REQUIRE(moves.left().size() == 3);
  CHECK(moves.left()[0].node == TreeNode{2, 0});
  CHECK(moves.left()[1].node == TreeNode{1, 2});
  CHECK(moves.left()[2].node == TreeNode{0, 6});

  // The last leaf is not copied; it is in memory with all operands of its sum.
  const ReductionSchedule stay =
      ReductionSchedule::tree(steps, ReductionSchedule::LastLeaves::stay);
  CHECK(stay.slots() == 2);
  CHECK(stay.of(6).empty());
  CHECK(stay.left().back().source.leaf);

  // Two ranks' leaves of one micro-step: combined before they need a slot, but not with a stack for
  // each.
  const ReductionSchedule strided = ReductionSchedule::tree({{{0, 0}, {0, 1}}, {{0, 2}, {0, 3}}});
  CHECK(strided.slots() == 1);
  CHECK(strided.of(1).front().operands.size() == 3);
  const ReductionSchedule apart = ReductionSchedule::tree({{{0, 0}, {1, 2}}, {{0, 1}, {1, 3}}});
  CHECK(apart.slots() == 2);
  CHECK(apart.left().size() == 2);

  const ReductionSchedule native = ReductionSchedule::accumulate(steps);
  CHECK(native.slots() == 1);
  CHECK(native.of(6).front().operands.size() == 2);
  CHECK(ReductionSchedule::accumulate({}).slots() == 0);
}

TEST_CASE("NodeStore: with guards a consumed node is NaN, and a remaining one is not") {
  AloneRank rank(1);
  MemoryLedger ledger;
  GradMemory memory(ledger, true);
  const ReduceTools tools{rank.setup, host_ops(), memory};
  ReductionSchedule::Steps steps;
  for (std::int64_t i = 0; i < 4; ++i) steps.push_back({{0, i}});
  const ReductionSchedule moves = ReductionSchedule::tree(steps);
  NodeStore store(tools, moves, rank.layout.padded_numel());
  const host::PieceLoop all(rank.layout.pieces({{0, rank.layout.padded_numel()}}));
  for (std::int64_t i = 0; i < 4; ++i) {
    const NodeValues leaf = NodeValues::flat(rank.grads.micro_batch_grad(i), 0);
    store.apply_flat(all, i, {&leaf, 1});
    const Span<const float> first(static_cast<const float*>(store.flat(0).view().data), 1000);
    const Span<const float> second(static_cast<const float*>(store.flat(1).view().data), 1000);
    CHECK_FALSE(all_nan(first));
    CHECK(all_nan(second) == (i != 2));
  }
  store.require_intact();
  static_cast<float*>(store.flat(1).view().data)[-1] = 0;
  expect_error(ErrorCode::internal, [&] { store.require_intact(); });
}

TEST_CASE("M = 1: the gradient is read in place until the update, and not after") {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    for (const int stage : {0, 1, 2, 3}) {
      CAPTURE(stage);
      CAPTURE(name(dtype));
      AloneRank phases(1, dtype, stage, false), fused(1, dtype, stage), shown(1, dtype, stage),
          cut(1, dtype, stage);
      for (int step = 0; step < 3; ++step) {
        for (AloneRank* rank : {&phases, &fused, &shown, &cut}) {
          rank->grads.step = step;
          rank->run(Phase::prepare, Phase::reduce);
        }
        CHECK(shown.values(Phase::reduce) == phases.values(Phase::reduce));
        // Changing the gradient before the update shows that no copy exists.
        cut.grads.store(5, 0.4375F);
        phases.run(Phase::unscale, Phase::gather);
        for (AloneRank* rank : {&fused, &shown, &cut}) rank->run(Phase::unscale, Phase::gather);
        for (std::int64_t i = 0; i < 1000; ++i)
          fused.grads.store(i, no_number);  // the caller may overwrite the memory again
        CHECK(fused.master() == phases.master());
        CHECK(shown.master() == phases.master());
        CHECK(cut.master() != phases.master());
        CHECK(fused.optimizer->memory().now[static_cast<std::size_t>(MemoryClass::grad_nodes)] ==
              0);
      }
    }
  }
}

TEST_CASE("G that was written through its view is G for the rest of the step") {
  for (const std::int64_t micro_batches : {1, 2, 5}) {
    for (const bool fused : {false, true}) {
      CAPTURE(micro_batches);
      CAPTURE(fused);
      AloneRank rank(micro_batches, DType::fp32, 1, fused),
          other(micro_batches, DType::fp32, 1, fused);
      rank.run(Phase::prepare, Phase::reduce);
      other.run(Phase::prepare, Phase::reduce);
      auto* sum = static_cast<float*>(rank.optimizer->exposed(Phase::reduce).front().view.data);
      sum[17] = std::numeric_limits<float>::infinity();
      rank.optimizer->overwritten(Phase::reduce);
      rank.run(Phase::unscale, Phase::unscale);
      other.run(Phase::unscale, Phase::unscale);
      CHECK(rank.optimizer->skipped());
      CHECK_FALSE(other.optimizer->skipped());
    }
  }
}

TEST_CASE("an infinity in one gradient of many is found while G is added up") {
  AloneRank rank(4);
  class Overflowing final : public GradSource {
   public:
    explicit Overflowing(OneBufferGrads& inner) : inner_(inner) {}
    TensorView micro_batch_grad(std::int64_t micro_batch) override {
      const TensorView leaf = inner_.micro_batch_grad(micro_batch);
      if (micro_batch == 2) inner_.store(20'000, std::numeric_limits<float>::infinity());
      return leaf;
    }

   private:
    OneBufferGrads& inner_;
  } overflowing(rank.grads);
  CHECK_FALSE(rank.optimizer->step(overflowing));
  CHECK(rank.optimizer->step(rank.grads));
}

TEST_CASE("copy_streamed: every size and alignment") {
  for (const Exec& exec : every_exec()) {
    for (const std::size_t offset : {0, 1, 3, 16, 17}) {
      for (const std::size_t numel : {0, 1, 4, 15, 16, 17, 63, 1000}) {
        std::vector<float> source(numel + 1, no_number), target(numel + 40, -1.0F);
        for (std::size_t i = 0; i < numel; ++i) source[i + 1] = static_cast<float>(i) - 0.5F;
        const Span<float> to(target.data() + offset, numel);
        host::copy_streamed(exec, Span<const float>(source).subspan(1), to);
        CHECK(std::ranges::equal(to, Span<const float>(source).subspan(1)));
        CHECK(std::ranges::count(target, -1.0F) == static_cast<std::ptrdiff_t>(40));
      }
    }
  }
  std::vector<float> three(3), four(4);
  expect_error(ErrorCode::invalid_argument, [&] { host::copy_streamed({}, three, four); });
}

}  // namespace grad_memory_test
