// Several optimizer instances, context and tensor parallelism: the bits of one rank with the undistributed model (R11,
// R12, R13, R15). The groups of ranks are worlds of their own.

#include "tests/cuda/step_world.hpp"

#include <doctest.h>

#include "common/base/error.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

constexpr MicroBatchOrder orders[] = {MicroBatchOrder::contiguous, MicroBatchOrder::strided};

/// A grid of instances x ranks of one instance x TP ranks, and its groups.
struct Grid {
  int instances = 1;
  int ranks = 1;
  int tp = 1;
  std::vector<std::unique_ptr<ThreadWorld>> comms = {}, replicas = {}, tps = {};

  int size() const { return instances * ranks * tp; }

  void make_groups() {
    for (int i = 0; i < instances * tp; ++i) comms.push_back(quick_world(ranks));
    for (int i = 0; i < ranks * tp; ++i) replicas.push_back(quick_world(instances));
    for (int i = 0; i < instances * ranks; ++i) tps.push_back(quick_world(tp));
  }
};

struct GridPlace {
  int instance, rank, tp;
  std::unique_ptr<Communicator> comm, replica, tp_comm;

  GridPlace(const Grid& grid, int number)
      : instance(number / (grid.ranks * grid.tp)), rank(number / grid.tp % grid.ranks), tp(number % grid.tp) {
    const auto at = [](int i) { return static_cast<std::size_t>(i); };
    comm = grid.comms[at(instance * grid.tp + tp)]->communicator(rank);
    replica = grid.replicas[at(rank * grid.tp + tp)]->communicator(instance);
    tp_comm = grid.tps[at(instance * grid.ranks + rank)]->communicator(tp);
  }

  /// One instance or one TP rank may also be said by leaving the group out.
  void into(const Grid& grid, OptimizerSetup& setup) const {
    setup.comm = comm.get();
    if (grid.instances > 1) setup.replicas = replica.get();
    if (grid.tp > 1) setup.tp = tp_comm.get();
  }
};

/// A step of data ranks only: instances, and cp ranks of every micro-batch.
StepResult on_data_grid(const StepRun& run, Grid grid, int cp, const ShardMap& shards) {
  grid.make_groups();
  Collector sums(run.layout);
  Collector rest(run.layout);
  const FirstState first(run.layout);
  const auto world = quick_world(grid.size());
  run_ranks(*world, [&](Communicator& all) {
    const GridPlace place(grid, all.rank());
    OptimizerSetup setup = run.setup;
    place.into(grid, setup);
    setup.layout = &run.layout;
    setup.shards = &shards;
    setup.cp = cp;
    const auto optimizer = cuda::make_distributed_optimizer(setup, run.form);
    NumberedLeaves leaves(run.layout, setup.leaf_dtype);
    leaves.parts = cp;
    leaves.part = all.rank() % cp;
    run_steps(*optimizer, leaves, first.state(), run.steps, sums, rest);
  });
  return {sums.result(), rest.result(run.setup.stage == 3)};
}

/// One rank that takes the parts for micro-batches of their own; tokens make the divisor the same.
StepResult parts_alone(StepRun run, int cp) {
  run.setup.micro_batches *= cp;
  run.leaves = [cp](NumberedLeaves& leaves) {
    leaves.parts = cp;
    leaves.tokens_per_part = true;
  };
  return run.alone();
}

void check_equal(const StepResult& got, const StepResult& want) {
  CHECK(got.sums.problem == "");
  CHECK(got.rest.problem == "");
  CHECK(got.sums.values == want.sums.values);
  CHECK(got.rest.values == want.rest.values);
}

}  // namespace

TEST_CASE("instances and CP ranks: the bits of one rank") {
  const FlatLayout& layout = odd_layout();
  struct Case {
    int instances, ranks, cp;
  };
  for (const GradSum sum : {GradSum::tree, GradSum::binned}) {
    for (const Case& c : {Case{2, 1, 1}, Case{2, 3, 1}, Case{3, 2, 1}, Case{1, 4, 2}, Case{2, 2, 2},
                          Case{2, 2, 4}, Case{1, 8, 8}, Case{1, 6, 2}, Case{2, 1, 2}}) {
      for (const int stage : {0, 1, 2, 3}) {
        for (const MicroBatchOrder order : orders) {
          CAPTURE(static_cast<int>(sum));
          CAPTURE(c.instances);
          CAPTURE(c.ranks);
          CAPTURE(c.cp);
          CAPTURE(stage);
          CAPTURE(static_cast<int>(order));
          StepRun run{layout, {}};
          run.steps = 1;
          run.setup.stage = stage;
          run.setup.grad_sum = sum;
          run.setup.order = order;
          run.setup.micro_batches = stage == 2 ? 1 : 7;
          run.setup.leaf_dtype = stage == 3 ? DType::bf16 : DType::fp32;
          run.setup.loss_reduction = LossReduction::tokens;
          run.setup.hyper.norm = NormForm::exact;
          check_equal(on_data_grid(run, {c.instances, c.ranks}, c.cp, ragged_map(layout, c.ranks)),
                      parts_alone(run, c.cp));
        }
      }
    }
  }
}

namespace {

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

float all_parts(std::int64_t unit, std::int64_t index, int first, int count) {
  if (count == 1) return part_value(unit, index, first);
  return all_parts(unit, index, first, count / 2) + all_parts(unit, index, first + count / 2, count / 2);
}

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
      CAPTURE(std::string(name(id)));
      CHECK(wrong == 0);
    }
  };
  compare(got.sums, want.sums);
  compare(got.rest, want.rest);
}

struct TpCase {
  int instances, ranks, tp, cp;
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
      return is_replicated(whole, i) ? whole_sum(whole_sum, u, i, 0, c.tp) : rounded(leaf_value(u, i));
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
      return is_replicated(whole, at) ? part_value(u, at, place.tp) : leaf_value(u, at);
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

TEST_CASE("scalars that differ on one rank are the same error on every rank, naming it") {
  const FlatLayout& layout = odd_layout();
  for (int culprit = 0; culprit < 8; ++culprit) {
    CAPTURE(culprit);
    Grid grid{2, 2, 2};
    grid.make_groups();
    const ShardMap shards(layout.padded_numel(), 2, 2048);
    std::vector<std::string> texts(8);
    const auto world = quick_world(8);
    run_ranks(*world, [&](Communicator& all) {
      const GridPlace place(grid, all.rank());
      OptimizerSetup setup;
      place.into(grid, setup);
      setup.layout = &layout;
      setup.shards = &shards;
      setup.stage = 1;
      setup.hyper.norm = NormForm::exact;
      setup.placement.resize(layout.tensors().size());
      if (all.rank() == culprit) setup.hyper.weight_decay *= 2;
      const auto optimizer = cuda::make_distributed_optimizer(setup);
      optimizer->load_state(FirstState(layout).state());
      NumberedLeaves leaves(layout, DType::fp32);
      std::string& text = texts[static_cast<std::size_t>(all.rank())];
      try {
        optimizer->run_phase(Phase::prepare, leaves);
      } catch (const Error& error) {
        text = error.code() == ErrorCode::comm ? error.what() : "another error";
      }
    });
    const std::string want =
        culprit == 0 ? "ranks 1, 2, 3, 4, 5, 6 and 7 differ" : "rank " + std::to_string(culprit) + " differ";
    for (const std::string& text : texts) {
      CHECK(text == texts.front());
      CHECK(text.find(want) != std::string::npos);
    }
  }
}
