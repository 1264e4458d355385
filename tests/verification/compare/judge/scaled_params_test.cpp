// Parameters in 8 bits: the judge with the reference on both sides, against the undistributed
// optimizer, over ranks, stages and layouts that split blocks.

#include <doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/verification/compare/judge/judge_support.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

struct Scaled {
  const char* recipe;
  DType dtype;
};
const std::vector<Scaled> scaled = {{"fp8-current", DType::e4m3},   {"fp8-current", DType::e5m2},
                                    {"fp8-delayed", DType::e5m2},   {"fp8-delayed", DType::e4m3},
                                    {"fp8-blockwise", DType::e4m3}, {"fp8-mxfp8", DType::e4m3}};

bool compared(const Judged& judged, BufferId id) {
  return std::ranges::any_of(judged.tallies, [&](const PhaseTally& tally) {
    return tally.buffer == id && tally.against == std::string("undistributed") &&
           tally.compared > 0;
  });
}

struct OfPhase {
  Phase phase;
  BufferId id;
};

/// Flips the lowest bit of the first byte of buffers on one rank, after a phase or a load.
Tamper flipped(int at, std::optional<Phase> after, const std::vector<OfPhase>& places) {
  return [=](int rank, std::optional<Phase> now, DistributedOptimizer& optimizer) {
    if (rank != at || now != after) return;
    for (const auto& [phase, id] : places) {
      const std::optional<ExposedBuffer> buffer = exposed(optimizer, phase, id);
      REQUIRE(buffer);
      auto* byte = static_cast<std::uint8_t*>(buffer->view.data);
      *byte = static_cast<std::uint8_t>(*byte ^ 1U);
    }
  };
}

}  // namespace

TEST_CASE(
    "judge: parameters in 8 bits on 1 to 5 ranks, in every stage, have the undistributed bits") {
  for (const Scaled& one : scaled) {  // clang does not let a lambda have structured bindings
    const std::string recipe = one.recipe;
    TinyTraining run(one.dtype, recipe);
    for (int world = 1; world <= 5; ++world) {
      const int stage = world % 4;
      CAPTURE(recipe);
      CAPTURE(world);
      const Judged judged =
          judge_case(run, run.spec(world, stage), 6, reference_optimizer(), reference_optimizer());
      CHECK_FALSE(judged.first);
      for (const BufferId id : {BufferId::amax, BufferId::param_scale, BufferId::param_scale_inv})
        CHECK(compared(judged, id));
      CHECK(compared(judged, BufferId::param_shard) == (world < 5));  // rank 0 of five owns nothing
      CHECK(compared(judged, BufferId::amax_history) == (recipe == "fp8-delayed"));
      const bool own = has_own_columns(run.config.scaling);
      CHECK(own == (recipe == "fp8-mxfp8"));
      for (const BufferId id :
           {BufferId::column_amax, BufferId::column_scale, BufferId::column_scale_inv})
        CHECK(compared(judged, id) == own);
      CHECK(compared(judged, BufferId::column_shard) == (own && world < 5));
      const bool columns = run.config.scaling.columnwise && stage != 3;
      CHECK(compared(judged, BufferId::param_columns) == columns);
    }
  }
}

TEST_CASE("nightly: judge: parameters in 8 bits in layouts and grids that split blocks") {
  for (const Scaled& one : scaled) {  // clang does not let a lambda have structured bindings
    const std::string recipe = one.recipe;
    TinyTraining run(one.dtype, recipe, [](RunConfig& config) {
      config.model = {2, 20, 4, 37, 13};
    });
    CAPTURE(recipe);
    for (const LayoutKind layout : {LayoutKind::megatron, LayoutKind::fsdp2, LayoutKind::greedy}) {
      ParallelConfig place;
      place.layout = layout;
      const int stage = layout == LayoutKind::fsdp2 ? 3 : layout == LayoutKind::megatron ? 1 : 2;
      CHECK_FALSE(judge_case(run, run.spec(3, stage, place), 4, reference_optimizer(),
                             reference_optimizer())
                      .first);
    }
    for (const ProcessGrid& grid :
         {ProcessGrid{1, 1, 2}, ProcessGrid{2, 2, 1}, ProcessGrid{2, 1, 4}}) {
      ParallelConfig place;
      place.grid = grid;
      for (const int stage : {1, 3}) {
        CHECK_FALSE(judge_case(run, run.spec(grid.world_size(), stage, place), 4,
                               reference_optimizer(), reference_optimizer())
                        .first);
      }
    }
  }
}

TEST_CASE("judge: a wrong amax, scale, history or column is reported in its phase") {
  TinyTraining current(DType::e4m3, "fp8-current");
  TinyTraining delayed(DType::e5m2, "fp8-delayed");
  TinyTraining mxfp8(DType::e4m3, "fp8-mxfp8");
  const auto check = [](TinyTraining& run, Phase phase, BufferId id) {
    CAPTURE(name(id));
    const Tamper tamper = flipped(2, phase, {{phase, id}});
    const Judged alone = judge_case(run, run.spec(3, 1), 2, tampered(reference_optimizer(), tamper),
                                    reference_optimizer());
    REQUIRE(alone.first);
    CHECK(alone.first->buffer == name(id));
    CHECK(alone.first->rank == 2);
    const Judged both = judge_case(run, run.spec(3, 1), 1, tampered(reference_optimizer(), tamper),
                                   tampered(reference_optimizer(), tamper));
    CHECK(says(both, "undistributed"));
    // A wrong shard of columns makes every rank's copy wrong; rank 0 reports first.
    CHECK(both.first->buffer == name(id == BufferId::column_shard ? BufferId::param_columns : id));
  };
  for (const BufferId id : {BufferId::amax, BufferId::param_scale, BufferId::param_scale_inv})
    check(current, Phase::cast, id);
  check(current, Phase::gather, BufferId::param_columns);
  check(delayed, Phase::cast, BufferId::amax_history);
  for (const BufferId id : {BufferId::column_amax, BufferId::column_scale,
                            BufferId::column_scale_inv, BufferId::column_shard})
    check(mxfp8, Phase::cast, id);
  check(mxfp8, Phase::gather, BufferId::param_columns);
}

TEST_CASE("judge: of wrong buffers of a cast, the one that is made first is reported") {
  TinyTraining delayed(DType::e5m2, "fp8-delayed");
  TinyTraining mxfp8(DType::e4m3, "fp8-mxfp8");
  const auto check = [](TinyTraining& run, const std::vector<BufferId>& made) {
    for (std::size_t first = 0; first < made.size(); ++first) {
      std::vector<OfPhase> wrong;
      for (std::size_t i = first; i < made.size(); ++i) wrong.push_back({Phase::cast, made[i]});
      CAPTURE(name(made[first]));
      const Judged judged = judge_candidate(run, run.spec(1, 1), 1, flipped(0, Phase::cast, wrong));
      REQUIRE(judged.first);
      CHECK(judged.first->step == 1);
      CHECK(judged.first->buffer == name(made[first]));
    }
  };
  check(delayed, {BufferId::amax, BufferId::amax_history, BufferId::param_scale,
                  BufferId::param_scale_inv, BufferId::param_shard});
  check(mxfp8, {BufferId::amax, BufferId::param_scale, BufferId::param_scale_inv,
                BufferId::param_shard, BufferId::column_amax, BufferId::column_scale,
                BufferId::column_scale_inv, BufferId::column_shard});
}

TEST_CASE("judge: a wrong loaded scale is reported before the masters dequantised by it") {
  const std::vector<OfPhase> made = {
      {Phase::cast, BufferId::amax},        {Phase::cast, BufferId::param_scale},
      {Phase::cast, BufferId::param_shard}, {Phase::update, BufferId::master},
      {Phase::cast, BufferId::column_amax}, {Phase::cast, BufferId::column_shard}};
  TinyTraining dequantised(DType::e4m3, "fp8-mxfp8", [](RunConfig& config) {
    config.scaling.initial_master = InitialMaster::dequantised;
  });
  TinyTraining as_loaded(DType::e4m3, "fp8-mxfp8");
  for (std::size_t first = 0; first < made.size(); ++first) {
    const std::vector<OfPhase> wrong(made.begin() + static_cast<std::ptrdiff_t>(first), made.end());
    const auto reported = [&](TinyTraining& run) {
      const Judged judged = judge_candidate(run, run.spec(1, 1), 0, flipped(0, {}, wrong));
      REQUIRE(judged.first);
      CHECK(judged.first->step == 0);
      return judged.first->buffer;
    };
    CAPTURE(name(made[first].id));
    CHECK(reported(dequantised) == name(made[first].id));
    // Scales and codes are made of masters that stay as they are.
    CHECK(reported(as_loaded) == name(first < 4 ? BufferId::master : made[first].id));
  }
}

TEST_CASE("judge: the trajectory of parameters in 8 bits has their scales and histories in it") {
  const auto hash_of = [](const std::string& recipe, DType dtype, void (*change)(RunConfig&)) {
    const TinyTraining run(dtype, recipe, change);
    GradCache leaves(run.experiment);
    DenseBaseline dense(run.experiment, leaves);
    dense.step(1);
    dense.step(2);
    return dense.trace().hash;
  };
  const auto none = [](RunConfig&) {};
  CHECK(hash_of("fp8-delayed", DType::e5m2, none) == hash_of("fp8-delayed", DType::e5m2, none));
  // One more slot changes no scale in two steps, but the history.
  CHECK(hash_of("fp8-delayed", DType::e5m2, none) !=
        hash_of("fp8-delayed", DType::e5m2, [](RunConfig& c) { c.scaling.history = 4; }));
  CHECK(hash_of("fp8-current", DType::e4m3, none) !=
        hash_of("fp8-current", DType::e4m3, [](RunConfig& c) { c.scaling.epsilon = 0; }));
}
