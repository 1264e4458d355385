// Tensor parallelism: every TP rank has the bits, draws and norm of the undistributed model (R11, R12, R13, R15).

#include "tests/cuda/step_grid.hpp"

#include <doctest.h>

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

constexpr MicroBatchOrder orders[] = {MicroBatchOrder::contiguous, MicroBatchOrder::strided};

/// The undistributed model of the TP tests, and what a TP rank has of it: `column` is cut by columns, `row` by rows.
constexpr int tp_columns = 9;

FlatLayout whole_model(int tp) {
  return FlatLayout(
      {{"gain", {37}}, {"column", {60, tp * tp_columns}}, {"row", {tp * 5, 17}}, {"bias", {1030}}});
}
FlatLayout tp_model(int tp) {
  return tp == 0
             ? whole_model(1)
             : FlatLayout({{"gain", {37}}, {"column", {60, tp_columns}}, {"row", {5, 17}}, {"bias", {1030}}});
}

std::vector<TensorPlacement> placements(const FlatLayout& whole, int tp, int rank) {
  std::vector<TensorPlacement> all;
  for (std::size_t t = 0; t < 4; ++t) {
    const TensorSlot& slot = whole.tensors()[t];
    if (t == 0 || t == 3) all.push_back({true, slot.begin, slot.numel, slot.numel});
    if (t == 1)
      all.push_back({false, slot.begin + tp_columns * rank, tp_columns, std::int64_t{tp} * tp_columns});
    if (t == 2) all.push_back({false, slot.begin + 5 * 17 * rank, 5 * 17, std::int64_t{tp} * 5 * 17});
  }
  return all;
}

bool is_replicated(const FlatLayout& whole, std::int64_t index) {
  const std::int64_t tensor = whole.tensor_at(index);
  return tensor == 0 || tensor == 3;
}

/// Part i of the gradient of a replicated element.
float part_value(std::int64_t unit, std::int64_t index, int i) { return leaf_value(unit * 8 + i, index); }

/// Undistributed index of a TP rank's element, or -1 for padding.
std::int64_t whole_index(const FlatLayout& local, const std::vector<TensorPlacement>& places,
                         std::int64_t index) {
  const std::int64_t t = local.tensor_at(index);
  if (t < 0) return -1;
  return places[static_cast<std::size_t>(t)].global(index -
                                                    local.tensors()[static_cast<std::size_t>(t)].begin);
}

/// What a TP rank's whole run leaves behind must be the undistributed run's, element by element.
void check_tp_rank(const StepResult& got, const StepResult& want, const FlatLayout& local,
                   const std::vector<TensorPlacement>& places) {
  CHECK(got.sums.problem == "");
  CHECK(got.rest.problem == "");
  const auto compare = [&](const Collected& ours, const Collected& theirs) {
    for (const auto& [id, values] : ours.values) {
      const std::vector<std::uint64_t>& expected = theirs.values.at(id);
      int wrong = 0;
      if (expected.size() != static_cast<std::size_t>(want.sums.values.at(BufferId::grad_sum).size())) {
        CHECK(values == expected);  // scalars
        continue;
      }
      for (std::int64_t i = 0; i < local.padded_numel(); ++i) {
        const std::int64_t at = whole_index(local, places, i);
        if (at >= 0) wrong += values[static_cast<std::size_t>(i)] != expected[static_cast<std::size_t>(at)];
      }
      const std::string buffer(name(id));
      CAPTURE(buffer);
      CHECK(wrong == 0);
    }
  };
  compare(got.sums, want.sums);
  compare(got.rest, want.rest);
}

struct TpCase {
  int instances, ranks, tp, cp;
  bool overflows = false;  ///< one element that only the last TP rank has
};

void check_tp(const TpCase& c, OptimizerSetup setup, cuda::StepForm form) {
  const FlatLayout whole = whole_model(c.tp);
  const FlatLayout local = tp_model(c.tp);
  // Leaves are bf16 in one case: parts are then rounded before, sums after they were combined.
  const auto rounded = [&](float x) { return setup.leaf_dtype == DType::bf16 ? to_float(to_bf16(x)) : x; };
  const auto whole_sum = [&](const auto& self, std::int64_t u, std::int64_t i, int first,
                             int count) -> float {
    if (count == 1) return rounded(part_value(u, i, first));
    return self(self, u, i, first, count / 2) + self(self, u, i, first + count / 2, count / 2);
  };
  const auto value = [&](std::int64_t u, std::int64_t i) {
    const std::int64_t last_column = whole.tensors()[1].begin + c.tp * tp_columns - 1;
    return c.overflows && u == 0 && i == last_column ? std::numeric_limits<float>::infinity()
                                                     : leaf_value(u, i);
  };
  StepRun alone{whole, setup, form, 2};
  alone.setup.leaf_dtype = DType::fp32;
  alone.setup.micro_batches *= c.cp;
  alone.setup.stage = 0;
  Collector sums(whole);
  Collector rest(whole);
  const FirstState first(whole);
  const ShardMap one(whole.padded_numel(), 1, 1024);
  const auto self = quick_world(1);
  run_ranks(*self, [&](Communicator& comm) {
    alone.setup.layout = &whole;
    alone.setup.shards = &one;
    alone.setup.comm = &comm;
    const auto optimizer = cuda::make_distributed_optimizer(alone.setup, form);
    NumberedLeaves leaves(whole, DType::fp32, [&](std::int64_t u, std::int64_t i) {
      return is_replicated(whole, i) ? whole_sum(whole_sum, u, i, 0, c.tp) : rounded(value(u, i));
    });
    leaves.parts = c.cp;
    leaves.tokens_per_part = true;
    run_steps(*optimizer, leaves, first.state(), 2, sums, rest);
  });
  StepResult want{sums.result(), rest.result()};
  if (setup.stage == 3) want.rest.values.erase(BufferId::param_full);

  Grid grid{c.instances, c.ranks, c.tp};
  grid.make_groups();
  const ShardMap shards = ragged_map(local, c.ranks);
  std::vector<std::unique_ptr<Collector>> tp_sums, tp_rest;
  for (int i = 0; i < c.tp; ++i) {
    tp_sums.push_back(std::make_unique<Collector>(local));
    tp_rest.push_back(std::make_unique<Collector>(local));
  }
  const auto world = quick_world(grid.size());
  run_ranks(*world, [&](Communicator& all) {
    const GridPlace place(grid, all.rank());
    OptimizerSetup mine = setup;
    place.into(grid, mine);
    mine.layout = &local;
    mine.shards = &shards;
    mine.cp = c.cp;
    mine.placement = placements(whole, c.tp, place.tp);
    const auto global = [&](std::int64_t i) { return whole_index(local, mine.placement, i); };
    const FirstState state(local, global);
    const auto optimizer = cuda::make_distributed_optimizer(mine, form);
    NumberedLeaves leaves(local, setup.leaf_dtype, [&](std::int64_t u, std::int64_t i) {
      const std::int64_t at = global(i);
      return is_replicated(whole, at) ? part_value(u, at, place.tp) : value(u, at);
    });
    leaves.parts = c.cp;
    leaves.part = (place.instance * c.ranks + place.rank) % c.cp;
    const auto at = static_cast<std::size_t>(place.tp);
    run_steps(*optimizer, leaves, state.state(), 2, *tp_sums[at], *tp_rest[at]);
  });
  for (int i = 0; i < c.tp; ++i) {
    const auto at = static_cast<std::size_t>(i);
    check_tp_rank({tp_sums[at]->result(), tp_rest[at]->result(setup.stage == 3)}, want, local,
                  placements(whole, c.tp, i));
  }
}

}  // namespace

TEST_CASE("TP ranks: the undistributed bits, draws and norm, for every stage, form and gradient sum") {
  for (const TpCase& c :
       {TpCase{1, 1, 2, 1}, TpCase{1, 3, 2, 1}, TpCase{2, 2, 2, 2}, TpCase{1, 2, 4, 1}, TpCase{1, 1, 8, 1}}) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const MicroBatchOrder order : orders) {
        CAPTURE(c.instances);
        CAPTURE(c.ranks);
        CAPTURE(c.tp);
        CAPTURE(c.cp);
        CAPTURE(stage);
        CAPTURE(static_cast<int>(order));
        OptimizerSetup setup;
        setup.stage = stage;
        setup.order = order;
        setup.micro_batches = 3;
        setup.param_rounding = ParamRounding::stochastic;
        setup.loss_reduction = LossReduction::tokens;
        setup.leaf_dtype = stage == 2 ? DType::bf16 : DType::fp32;
        setup.hyper.norm = stage == 0 ? NormForm::one : stage == 1 ? NormForm::inf : NormForm::exact;
        setup.grad_sum = stage == 3 ? GradSum::binned : GradSum::tree;
        check_tp(c, setup,
                 order == MicroBatchOrder::strided ? cuda::StepForm::fused : cuda::StepForm::phases);
      }
    }
  }
}

TEST_CASE("an overflow on one TP rank is skipped on all") {
  for (const int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    OptimizerSetup setup;
    setup.stage = stage;
    setup.micro_batches = 3;
    setup.loss_reduction = LossReduction::tokens;
    setup.hyper.norm = NormForm::exact;
    setup.scaler.kind = LossScalerKind::dynamic;
    check_tp({1, 2, 2, 1, true}, setup, cuda::StepForm::phases);
  }
}
