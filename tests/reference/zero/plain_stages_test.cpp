// The pages plain_stage1.cpp to plain_stage3.cpp against the sharded optimizer, bit for bit.

#include "reference/operations.hpp"
#include "reference/zero/plain/plain_zero.hpp"

#include <algorithm>
#include <array>

#include "tests/reference/alone.hpp"

namespace plain_stages_test {

using namespace zeroproof;
using namespace zeroproof::tests;
using reference::PlainSetup;
using reference::PlainZero;

namespace {

/// All steps of a page on whole vectors, for comparison with the ranks of a world.
struct PlainSteps {
  std::vector<std::vector<bf16>> param_before;  // [steps][numel]
  WorldTruth truth;                             // [1 + steps], nothing of step 0
};

struct PlainWorld {
  FlatLayout layout;
  int stage, world_size;
  std::int64_t bucket_numel, micro_batches;
  OptimizerHyper hyper;

  /// Elements up to the end of the last tensor; gaps between tensors are +0 for the page and NaN
  /// for the optimizer.
  std::int64_t numel() const {
    const TensorSlot& last = layout.tensors().back();
    return last.begin + last.numel;
  }
};

constexpr std::int64_t last_step = 4;
constexpr std::int64_t overflow_step = 2;

/// A gradient that depends on the parameter, so that a stale or misplaced one changes results.
float gradient(std::int64_t step, std::int64_t micro_batch, std::int64_t i, bf16 param,
               int log2_scale) {
  const auto seed = static_cast<std::uint64_t>(100 * step + micro_batch);
  const float random = shared_random_values(8 * 1024, seed, 6)[i];
  float widened = 0;
  reference::widen_bf16({}, {&param, 1}, {&widened, 1});
  return std::ldexp(i % 11 == 3 ? -0.0F : random + widened, log2_scale);
}

/// In the first or in the last element, so in the first or in the last shard with elements.
bool overflows(const PlainWorld& world, std::int64_t step, std::int64_t micro_batch,
               std::int64_t i) {
  const std::int64_t where = world.micro_batches % 2 == 0 ? 0 : world.numel() - 1;
  return step == overflow_step && micro_batch == world.micro_batches - 1 && i == where;
}

std::unique_ptr<PlainZero> make_page(const PlainWorld& world, const FullState& initial) {
  PlainSetup setup{world.world_size, world.micro_batches, world.numel(), {},
                   world.hyper,      lively_scaler()};
  for (const TensorSlot& slot :
       world.layout.tensors()) {  // a layer for each tensor, with the gap after it
    if (!setup.layers.empty()) setup.layers.back().end = slot.begin;
    setup.layers.push_back({slot.begin, slot.begin + slot.numel});
  }
  if (world.stage == 1) return std::make_unique<reference::PlainStage1>(setup, initial);
  if (world.stage == 2) return std::make_unique<reference::PlainStage2>(setup, initial);
  return std::make_unique<reference::PlainStage3>(setup, initial);
}

template <class T, class U>
std::vector<T> joined(const PlainZero& page, U member) {
  std::vector<T> all;
  for (const reference::PlainShard& shard : page.shards()) {
    const std::vector<T>& part = shard.*member;
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

/// All steps of the page.
PlainSteps plain_steps(const PlainWorld& world, const InitialState& initial) {
  using Shard = reference::PlainShard;
  std::vector<float> master(world.numel(), 0.0F);
  auto slots = per_slot([&](StateSlot) { return master; });
  for (const Piece& piece : world.layout.pieces({{0, world.numel()}})) {
    std::ranges::copy(reference::at(initial.master, piece), reference::at(master, piece).begin());
    for (const StateSlot slot : all_state_slots)
      std::ranges::copy(reference::at(initial.slots[slot], piece),
                        reference::at(slots[slot], piece).begin());
  }
  FullState state = initial.view();
  state.master = master;
  for (const StateSlot slot : all_state_slots) state.slots[slot] = slots[slot];
  const std::unique_ptr<PlainZero> page = make_page(world, state);

  PlainSteps steps;
  steps.truth.resize(1);
  for (std::int64_t step = 1; step <= last_step; ++step) {
    steps.param_before.push_back(joined<bf16>(*page, &Shard::param));
    StepTruth now;
    now.applied = page->step([&](std::int64_t j, const FlatRange& layer,
                                 const std::vector<bf16>& param, int log2_scale) {
      std::vector<float> grad(param.size(), 0.0F);
      for (const Piece& piece : world.layout.pieces({layer})) {
        for (std::int64_t k = 0; k < piece.numel; ++k) {
          const auto at = static_cast<std::size_t>(piece.local_begin + k);
          grad[at] = gradient(step, j, piece.global_begin + k, param[at], log2_scale);
          if (overflows(world, step, j, piece.global_begin + k)) grad[at] = inf32;
        }
      }
      return grad;
    });
    const auto keep = [&](BufferId id, const auto& values, DType dtype) {
      auto copy = values;
      now.keep(id, {copy.data(), dtype, static_cast<std::int64_t>(copy.size())});
    };
    // A skipped step leaves scratch values in the gradient buffers.
    if (now.applied) keep(BufferId::grad, joined<float>(*page, &Shard::grad), DType::fp32);
    keep(BufferId::master, joined<float>(*page, &Shard::master), DType::fp32);
    keep(BufferId::exp_avg, joined<float>(*page, &Shard::exp_avg), DType::fp32);
    keep(BufferId::exp_avg_sq, joined<float>(*page, &Shard::exp_avg_sq), DType::fp32);
    keep(BufferId::param_shard, joined<bf16>(*page, &Shard::param), DType::bf16);
    keep(BufferId::param_full, joined<bf16>(*page, &Shard::param), DType::bf16);
    const LossScalerState scaler = page->loss_scaler();
    keep(BufferId::loss_scaler, std::bit_cast<std::array<std::uint32_t, 3>>(scaler), DType::u32);
    keep(BufferId::found_inf, std::array{now.applied ? 0U : 1U}, DType::u32);
    keep(BufferId::applied_steps, std::array{static_cast<std::uint64_t>(page->applied_steps())},
         DType::u64);
    steps.truth.push_back(std::move(now));
  }
  return steps;
}

/// The same gradients for the sharded optimizer, from the parameters of the page; padding is NaN.
class SameGrads final : public GradSource {
 public:
  SameGrads(const PlainWorld& world, const PlainSteps& steps, DistributedOptimizer& optimizer)
      : world_(world), steps_(steps), optimizer_(optimizer) {}

  std::int64_t step = 1;

  TensorView micro_batch_grad(std::int64_t micro_batch) override {
    leaf_ = reference::nan_buffer(world_.layout.padded_numel());
    const std::vector<bf16>& param = steps_.param_before[step - 1];
    for (const Piece& piece : world_.layout.pieces({{0, world_.numel()}})) {
      for (std::int64_t i = piece.global_begin; i < piece.global_begin + piece.numel; ++i) {
        const auto at = static_cast<std::size_t>(i);
        leaf_[at] = gradient(step, micro_batch, i, param[at], optimizer_.loss_scaler().log2_scale);
        if (overflows(world_, step, micro_batch, i)) leaf_[at] = inf32;
      }
    }
    return reference::array_view(leaf_);
  }

 private:
  const PlainWorld& world_;
  const PlainSteps& steps_;
  DistributedOptimizer& optimizer_;
  std::vector<float> leaf_;
};

/// The difference on a rank after a step, or "".
std::string problem_of(const RankModel& model, DistributedOptimizer& optimizer,
                       const StepTruth& plain) {
  Comparison comparison(model, plain);
  for (const auto& known : plain.buffers) {
    if (has(optimizer, known.first)) comparison.look_at(stored(optimizer, known.first));
  }
  const bool clips = !plain.applied || read<float>(stored(optimizer, BufferId::clip_coef).view) < 1;
  comparison.expect(clips, BufferId::clip_coef, " does not bind");
  return comparison.problem;
}

void check_world(const PlainWorld& plain) {
  const InitialState initial(plain.layout, lively_scaler());
  const PlainSteps right = plain_steps(plain, initial);
  World world = reference_world(plain.stage, {1, plain.world_size}, plain.micro_batches);
  world.tensors.params.clear();
  for (const TensorSlot& slot : plain.layout.tensors())
    world.tensors.params.push_back({slot.name, slot.shape});
  world.shards = World::contract_map(plain.bucket_numel);
  world.setup.hyper = plain.hyper;
  world.setup.seed = 1;
  INFO("bucket ", plain.bucket_numel, ", numel ", plain.numel());
  check_ranks(world, "page", [&](WorldRank& rank) -> std::string {
    rank.load();
    SameGrads grads(plain, right, *rank.optimizer);
    for (; grads.step <= last_step; ++grads.step) {
      const StepTruth& expected = right.truth[grads.step];
      const bool applied = rank.optimizer->step(grads);
      std::string problem = problem_of(rank.model, *rank.optimizer, expected);
      if (applied != expected.applied || applied != (grads.step != overflow_step))
        problem = "a different decision to skip";
      if (!problem.empty()) return "step " + std::to_string(grads.step) + ": " + problem;
    }
    return "";
  });
}

void check_page(int stage) {
  const std::vector<FlatLayout> layouts = {
      odd_layout(), FlatLayout({ParamSpec{"five", {5}}}), FlatLayout({ParamSpec{"one", {}}}),
      FlatLayout({{"nothing", {0}}, {"uneven", {3, 683}}, {"last", {1023}}})};
  std::size_t turn = 0;
  for (const FlatLayout& layout : layouts) {
    for (const int world_size :
         {1, 2, 3, 5, 8}) {  // 8 ranks for 7 chunks, for 5 elements and for 1
      for (const std::int64_t micro_batches : {1, 2, 3, 7, 8}) {
        PlainWorld world{layout,        stage,        world_size, turn % 2 == 0 ? 1024 : 1 << 20,
                         micro_batches, usual_hyper()};
        world.hyper.norm = std::array<NormForm, 4>{NormForm::chunk1024, NormForm::exact,
                                                   NormForm::one, NormForm::inf}[turn % 4];
        world.hyper.max_norm = 1e-3;  // binds in every step
        world.hyper.weight_decay = turn % 3 == 0 ? 0 : 0.1;
        world.hyper.maximize = turn % 5 == 0;
        check_world(world);
        ++turn;
      }
    }
  }
}

}  // namespace

TEST_CASE("plain stages: stage 1 on a page has the bits of the sharded optimizer") {
  check_page(1);
}
TEST_CASE("plain stages: stage 2 on a page has the bits of the sharded optimizer") {
  check_page(2);
}
TEST_CASE("plain stages: stage 3 on a page has the bits of the sharded optimizer") {
  check_page(3);
}

TEST_CASE("plain stages: unsupported settings are rejected") {
  const FlatLayout layout = odd_layout();
  const InitialState initial(layout);
  PlainSetup good{
      2, 3, layout.padded_numel(), {{0, 1024}, {1024, layout.padded_numel()}}, usual_hyper(), {}};
  CHECK_NOTHROW(reference::PlainStage1(good, initial.view()));
  const auto refused = [&](auto change) {
    PlainSetup setup = good;
    change(setup);
    ZP_CHECK_INVALID(reference::PlainStage3(setup, initial.view()));
  };
  refused([](PlainSetup& setup) { setup.world_size = 0; });
  refused([](PlainSetup& setup) { setup.micro_batches = 0; });
  refused([](PlainSetup& setup) { setup.numel -= 1; });
  refused([](PlainSetup& setup) { setup.layers.pop_back(); });
  refused([](PlainSetup& setup) { setup.layers.back().begin += 1; });
  refused([](PlainSetup& setup) { setup.hyper.rule = UpdateRule::sgd; });
  refused([](PlainSetup& setup) { setup.hyper.amsgrad = true; });
  refused([](PlainSetup& setup) { setup.hyper.clip_value = 1; });
}

TEST_CASE("plain stages: a gradient of the wrong length is rejected") {
  const FlatLayout layout = odd_layout();
  const InitialState initial(layout);
  const PlainSetup setup{2, 3, layout.padded_numel(), {{0, layout.padded_numel()}}, usual_hyper(),
                         {}};
  const auto too_short = [](std::int64_t, const FlatRange&, const std::vector<bf16>& param, int) {
    return std::vector<float>(param.size() - 1);
  };
  ZP_CHECK_INVALID(reference::PlainStage1(setup, initial.view()).step(too_short));
  ZP_CHECK_INVALID(reference::PlainStage2(setup, initial.view()).step(too_short));
  ZP_CHECK_INVALID(reference::PlainStage3(setup, initial.view()).step(too_short));
}

}  // namespace plain_stages_test
