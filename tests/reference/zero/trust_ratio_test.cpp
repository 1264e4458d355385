// LAMB over ranks: every rank has the trust ratios of the undistributed step, and its bits.

#include <array>
#include <cmath>

#include "common/comm/recording.hpp"
#include "tests/reference/alone.hpp"
#include "tests/reference/step/dense_support.hpp"

namespace trust_ratio_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

World lamb_world(int stage, const Grid& grid, std::int64_t micro_batches) {
  World world = reference_world(stage, grid, micro_batches);
  world.setup.hyper.rule = UpdateRule::lamb;
  return world;
}

/// Tensors that TP ranks have whole, and some that they split; one of each is odd or empty.
CutTensors cut_tensors() {
  return {{{"v", {37}},
           {"columns", {50, 24}},
           {"rows", {16, 70}},
           {"nothing", {0, 4}},
           {"one", {}},
           {"w", {1100}}},
          {-1, 1, 0, -1, -1, -1}};
}

/// Three elements, two of them in one tensor, and exact roots.
ThreeElements exact_roots() {
  ThreeElements model;
  model.setup.hyper.rule = UpdateRule::lamb;
  model.master[where[0]] = 9;
  model.master[where[1]] = 12;
  model.master[where[2]] = 16;
  return model;
}

std::vector<float> ratios(const reference::DenseOptimizer& optimizer) {
  return optimizer.last_step().trust_ratio;
}

}  // namespace

TEST_CASE("trust ratio: one step of two tensors by hand") {
  // g1 = (1, -3, 0) and the scalars of adam_test.cpp: a = 1/8, -3/16, 0; w = m/8 = 9/8, 3/2, 2.
  //   u         5/4       21/16     2         N_u = sqrt(400 + 441) / 16 = 29/16, and 2
  //   m         9         12        16        N_w = 15, and 16
  //   ratio     (1/4 * 15) / (29/16) = 60/29, and (1/4 * 16) / 2 = 2
  const std::vector<std::vector<float>> leaves = {{3, -20, 5}, {5, -4, -5}};
  for (const NormForm form : {NormForm::chunk1024, NormForm::inf}) {  // the run's form is not used
    ThreeElements model = exact_roots();
    model.setup.hyper.norm = form;
    reference::DenseOptimizer optimizer(model.setup, model.state());
    CHECK(ratios(optimizer) == std::vector<float>{1, 1});
    CHECK(step(optimizer, leaves));
    const auto ratio = static_cast<float>(60.0 / 29.0);
    CHECK(ratios(optimizer) == std::vector<float>{ratio, 2});
    const float p0 = ratio * 1.25F, p1 = ratio * 1.3125F;
    CHECK(three(optimizer.master()) == std::vector<float>{9 - p0, 12 - p1, 12});
    CHECK(three(optimizer.state(BufferId::exp_avg)) == std::vector<float>{0.5F, -1.5F, 0});
    CHECK(three(optimizer.state(BufferId::exp_avg_sq)) == std::vector<float>{0.25F, 2.25F, 0});
    CHECK(read<std::array<float, 2>>(optimizer.buffer(BufferId::trust_ratio))[1] == 2);
  }
  // No other rule has the buffer.
  ThreeElements model;
  const reference::DenseOptimizer adamw(model.setup, model.state());
  CHECK(adamw.buffer(BufferId::trust_ratio).data == nullptr);
}

TEST_CASE("trust ratio: lr and decay are those of the group of the tensor") {
  ThreeElements model = exact_roots();
  GroupRule rule;
  rule.name = "single";
  rule.lr_mult = 0.5;
  model.setup.groups.rules = {rule};
  model.setup.groups.of_tensor = {0, 1};
  reference::DenseOptimizer optimizer(model.setup, model.state());
  CHECK(step(optimizer, {{3, -20, 5}, {5, -4, -5}}));
  // The second tensor: w = m/16 = 1, N_u = 1, ratio = (1/8 * 16) / 1.
  CHECK(ratios(optimizer) == std::vector<float>{static_cast<float>(60.0 / 29.0), 2});
  CHECK(three(optimizer.master())[2] == 14);
}

TEST_CASE("trust ratio: 1 for a tensor without a gradient, which keeps its bits") {
  ThreeElements model = exact_roots();
  model.setup.missing_grad = MissingGrad::skip;
  reference::DenseOptimizer optimizer(model.setup, model.state());
  const std::vector<std::vector<float>> leaves = {{3, -20, 5}, {5, -4, -5}};
  CHECK(step(optimizer, leaves, {{}, {{true, true}, {true, true}}}));
  CHECK(ratios(optimizer)[1] == 2);
  CHECK(step(optimizer, {{3, -20, 0}, {5, -4, 0}}, {{}, {{true, false}, {true, false}}}));
  CHECK(ratios(optimizer)[0] != 1);
  CHECK(ratios(optimizer)[1] == 1);
  CHECK(three(optimizer.master())[2] == 12);
}

TEST_CASE("trust ratio: lr = 0 changes moments only, and the ratio is 1") {
  ThreeElements model = exact_roots();
  model.setup.hyper.lr = 0;
  reference::DenseOptimizer optimizer(model.setup, model.state());
  CHECK(step(optimizer, {{3, -20, 5}, {5, -4, -5}}));
  CHECK(ratios(optimizer) == std::vector<float>{1, 1});
  CHECK(three(optimizer.master()) == std::vector<float>{9, 12, 16});
  CHECK(three(optimizer.state(BufferId::exp_avg)) == std::vector<float>{0.5F, -1.5F, 0});
}

TEST_CASE("trust ratio: a step with an overflow is skipped, or propagates into its tensor alone") {
  for (const OnNonfinite policy : {OnNonfinite::skip, OnNonfinite::propagate}) {
    ThreeElements model = exact_roots();
    model.setup.on_nonfinite = policy;
    reference::DenseOptimizer optimizer(model.setup, model.state());
    CHECK(step(optimizer, {{3, inf32, 5}, {5, -4, -5}}) == (policy == OnNonfinite::propagate));
    if (policy == OnNonfinite::skip) {
      CHECK(three(optimizer.master()) == std::vector<float>{9, 12, 16});
      CHECK(ratios(optimizer) == std::vector<float>{1, 1});
    } else {
      CHECK(std::isnan(ratios(optimizer)[0]));
      CHECK(ratios(optimizer)[1] == 2);
      CHECK(three(optimizer.master())[2] == 12);
    }
  }
}

TEST_CASE("trust ratio: every stage, 1 to 5 ranks, any map equals the dense optimizer") {
  std::size_t turn = 0;
  for (int stage = 0; stage <= 3; ++stage) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      for (int map = 0; map < 5; ++map, ++turn) {
        World world = lamb_world(stage, {1, ranks}, std::array<std::int64_t, 3>{1, 5, 3}[turn % 3]);
        constexpr std::array<Dealt, 3> dealt = {Dealt::stretches, Dealt::tensors, Dealt::last_rank};
        if (map == 0) world.shards = World::contract_map(1024);
        if (map == 1) world.shards = ragged_map;
        if (map >= 2) world.shards = dealt_map(dealt[map - 2]);
        OptimizerSetup& setup = world.setup;
        if (map != 0)
          setup.hyper.norm =
              std::array<NormForm, 3>{NormForm::exact, NormForm::one, NormForm::inf}[turn % 3];
        setup.hyper.maximize = turn % 5 == 1;
        setup.hyper.weight_decay = turn % 4 == 2 ? 0 : 0.1;
        setup.missing_grad = turn % 3 == 1 ? MissingGrad::skip : MissingGrad::zero;
        setup.on_nonfinite = turn % 4 == 3 ? OnNonfinite::propagate : OnNonfinite::skip;
        setup.order = turn % 2 == 0 ? MicroBatchOrder::contiguous : MicroBatchOrder::strided;
        setup.grad_sum = turn % 7 == 3 ? GradSum::binned : GradSum::tree;
        setup.persistent_numel = turn % 2 == 0 ? 37 : 0;
        setup.param_rounding = turn % 5 == 4 ? ParamRounding::stochastic : ParamRounding::nearest;
        world.layered = turn % 3 == 2;
        check_against_dense(world, "lamb");
      }
    }
  }
}

TEST_CASE("trust ratio: param groups and clip groups in every stage equal the dense optimizer") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const int ranks : {2, 5}) {
      World world = lamb_world(stage, {1, ranks}, 3);
      GroupRule rule;
      rule.name = "no_decay";
      rule.lr_mult = 0.25;
      rule.weight_decay_mult = 0;
      world.setup.groups.rules = {rule};
      world.setup.groups.of_tensor = {0, 0, 1, 1, 0};
      world.setup.clip_groups = {{ClipGroupRule{"tight", {}, false, 0.01}}, {1, 0, 0, 1, 0}};
      world.setup.hyper.clip_value = 0.01;
      check_against_dense(world, "groups");
    }
  }
}

TEST_CASE("trust ratio: TP and CP ranks and instances equal the dense optimizer") {
  std::size_t turn = 0;
  for (const Grid& grid : {Grid{1, 1, 2, 1}, Grid{1, 3, 2, 1}, Grid{1, 2, 4, 1}, Grid{1, 4, 1, 2},
                           Grid{2, 2, 1, 1}, Grid{3, 1, 1, 1}, Grid{2, 2, 2, 2}}) {
    for (int stage = 0; stage <= 3; ++stage, ++turn) {
      World world = lamb_world(stage, grid, std::array<std::int64_t, 4>{1, 3, 5, 2}[turn % 4]);
      world.tensors = cut_tensors();
      world.setup.hyper.norm =
          std::array<NormForm, 3>{NormForm::exact, NormForm::one, NormForm::inf}[turn % 3];
      world.setup.missing_grad = turn % 3 == 1 ? MissingGrad::skip : MissingGrad::zero;
      world.setup.on_nonfinite = turn % 4 == 3 ? OnNonfinite::propagate : OnNonfinite::skip;
      world.layered = turn % 2 == 1;
      check_against_dense(world, "lamb");
    }
  }
}

TEST_CASE("trust ratio: of the values that a state in fewer bits has when it is read") {
  const std::array<StateFormats, 3> formats = {
      {{StateFormat::bf16, StateFormat::fp32, MasterFormat::fp32},
       {StateFormat::e4m3, StateFormat::fp16, MasterFormat::fp32},
       {StateFormat::fp16, StateFormat::e4m3, MasterFormat::bf16}}};
  for (const StateFormats& state : formats) {
    for (int stage = 0; stage <= 3; ++stage) {
      World world = lamb_world(stage, {1, 3}, 3);
      world.setup.state_formats = state;
      world.setup.missing_grad = stage % 2 == 0 ? MissingGrad::skip : MissingGrad::zero;
      world.shards = ragged_map;
      world.setup.hyper.norm = NormForm::exact;
      check_against_dense(world, "formats");
      world.grid = {1, 2, 2, 1};
      world.tensors = cut_tensors();
      check_against_dense(world, "formats, tp");
    }
  }
}

TEST_CASE("trust ratio: ranks add the integers of all tensors in one reduction") {
  for (int stage = 0; stage <= 3; ++stage) {
    const World world = lamb_world(stage, {1, 3}, 3);
    std::array<TrafficEntry, 3> reduced;
    run_grid(world.grid, [&](GridPlace place) {
      RecordingCommunicator recording(*place.comm);
      place.comm = &recording;
      WorldRank rank(world, place);
      rank.load();
      for (const Phase phase : all_phases) {
        if (phase == Phase::update) recording.reset();
        if (phase == Phase::cast) break;
        rank.optimizer->run_phase(phase, rank.grads);
      }
      reduced[place.rank] = recording.traffic().total();
    });
    for (const TrafficEntry& entry : reduced) {
      CHECK(entry.calls == (stage == 0 ? 0 : 1));  // in stage 0 every rank has all elements
      CHECK(entry.bytes_sent == (stage == 0 ? 0 : 2 * 8 * 5 * 46));  // to two ranks
    }
  }
}

TEST_CASE("trust ratio: a view that keeps its address, after the update of a rule that has it") {
  for (int stage = 0; stage <= 3; ++stage) {
    Alone rank(stage);
    rank.setup.hyper.rule = UpdateRule::lamb;
    rank.make();
    const TensorView before = rank.view(BufferId::trust_ratio);
    CHECK((before.dtype == DType::fp32 && before.numel == 5));
    rank.run_up_to(Phase::clip);
    write(rank.view(BufferId::exp_avg), 1e6F);  // changes the ratio of its tensor alone
    rank.run(Phase::update);
    const TensorView after = rank.view(BufferId::trust_ratio);
    CHECK(after.data == before.data);
    const auto written = read<std::array<float, 5>>(after);
    rank.make();
    rank.run_up_to(Phase::update);
    const auto usual = read<std::array<float, 5>>(rank.view(BufferId::trust_ratio));
    CHECK(written[0] != usual[0]);
    for (const std::size_t tensor : {2U, 3U, 4U}) {
      CHECK(written[tensor] == usual[tensor]);
      CHECK(usual[tensor] != 1);
    }
    CHECK(usual[1] == 1);  // a tensor without elements
    rank.optimizer->load_state(rank.initial.view());
    CHECK(read<std::array<float, 5>>(rank.view(BufferId::trust_ratio)) ==
          std::array<float, 5>{1, 1, 1, 1, 1});
  }
}

}  // namespace trust_ratio_test
