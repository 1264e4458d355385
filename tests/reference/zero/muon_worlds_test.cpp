// The rule muon over ranks: every rank has its elements of the undistributed step, bit for bit.

#include <array>
#include <atomic>
#include <functional>

#include "common/comm/recording.hpp"
#include "tests/reference/alone.hpp"

namespace muon_worlds_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// Matrices of odd sizes and other tensors: split over TP ranks by columns and rows, with a part
/// that is empty on some of 4 TP ranks; not split; without elements; longer than a chunk.
CutTensors muon_tensors() {
  return {{{"v", {37}},
           {"odd", {13, 29}},
           {"nothing", {0, 4}},
           {"qkv", {24, 10}},
           {"one", {}},
           {"gate", {7, 12}},
           {"embedding", {19, 8}},
           {"cube", {2, 3, 4}},
           {"tall", {40, 27}},
           {"thin", {3, 5}}},
          {-1, 1, -1, 0, -1, 1, 0, -1, -1, 0}};
}

World muon_world(int stage, const Grid& grid, std::int64_t micro_batches) {
  World world = reference_world(stage, grid, micro_batches);
  world.tensors = muon_tensors();
  OptimizerSetup& setup = world.setup;
  setup.hyper.rule = UpdateRule::muon;
  setup.hyper.momentum = 0.95;
  setup.hyper.nesterov = true;
  setup.hyper.norm = NormForm::exact;
  setup.matrix_tensors = make_matrix_tensors(
      {"embedding"}, {{"qkv", {"qkv"}, {3, 1, 2}, {}}, {"gate", {"g*"}, {}, {1, 2}}},
      FlatLayout(world.tensors.params));
  return world;
}

/// Settings of the rule by a number, every one in some worlds.
void vary(World& world, std::size_t turn) {
  OptimizerSetup& setup = world.setup;
  MuonSettings& muon = setup.hyper.muon;
  muon.family = turn % 3 == 0 ? MomentumFamily::heavy_ball : MomentumFamily::ema;
  muon.scale = static_cast<MuonScale>(turn % 5);
  muon.newton_schulz.coefficients = static_cast<NewtonSchulzSet>(turn % 7);
  muon.newton_schulz.form = static_cast<PolynomialForm>(turn % 3);
  muon.newton_schulz.factors = turn % 4 == 1 ? MatrixFactors::fp32 : MatrixFactors::bf16;
  muon.newton_schulz.steps = 1 + static_cast<int>(turn % 3);
  setup.hyper.nesterov = turn % 5 != 2;
  setup.hyper.maximize = turn % 5 == 1;
  setup.hyper.weight_decay = turn % 4 == 2 ? 0 : 0.1;
  setup.missing_grad = turn % 3 == 1 ? MissingGrad::skip : MissingGrad::zero;
  setup.on_nonfinite = turn % 4 == 3 ? OnNonfinite::propagate : OnNonfinite::skip;
  setup.order = turn % 2 == 0 ? MicroBatchOrder::contiguous : MicroBatchOrder::strided;
  setup.grad_sum = turn % 7 == 3 ? GradSum::binned : GradSum::tree;
  setup.persistent_numel = turn % 2 == 0 ? 37 : 0;
  setup.matrix_owners = static_cast<MatrixOwners>(turn % 3);  // changes no bit
  world.layered = turn % 3 == 2;
}

}  // namespace

TEST_CASE("muon: every stage, 1 to 8 ranks, any map equals the undistributed step") {
  std::size_t turn = 0;
  for (int stage = 0; stage <= 3; ++stage) {
    for (const int ranks : {1, 2, 3, 5, 8}) {
      for (int map = 0; map < 5; ++map, ++turn) {
        World world = muon_world(stage, {1, ranks}, std::array<std::int64_t, 3>{1, 5, 3}[turn % 3]);
        vary(world, turn);
        constexpr std::array<Dealt, 3> dealt = {Dealt::stretches, Dealt::tensors, Dealt::last_rank};
        if (map == 0) world.shards = World::contract_map(1024);
        if (map == 1) world.shards = ragged_map;
        if (map >= 2) world.shards = dealt_map(dealt[map - 2]);
        world.setup.param_rounding =
            turn % 5 == 4 ? ParamRounding::stochastic : ParamRounding::nearest;
        check_against_dense(world, "muon");
      }
    }
  }
}

TEST_CASE("muon: TP and CP ranks and instances equal the undistributed step") {
  std::size_t turn = 0;
  for (const Grid& grid :
       {Grid{1, 1, 2, 1}, Grid{1, 3, 2, 1}, Grid{1, 5, 2, 1}, Grid{1, 1, 4, 1}, Grid{1, 2, 4, 1},
        Grid{1, 8, 4, 1}, Grid{1, 4, 1, 2}, Grid{2, 2, 1, 1}, Grid{3, 1, 1, 1}, Grid{2, 2, 2, 2}}) {
    for (int stage = 0; stage <= 3; ++stage, ++turn) {
      World world = muon_world(stage, grid, std::array<std::int64_t, 4>{1, 3, 5, 2}[turn % 4]);
      vary(world, turn);
      if (turn % 2 == 1) world.shards = ragged_map;
      check_against_dense(world, "muon");
    }
  }
}

TEST_CASE("muon: param groups and clip groups equal the undistributed step") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const Grid& grid : {Grid{1, 3, 1, 1}, Grid{1, 2, 2, 1}}) {
      World world = muon_world(stage, grid, 3);
      GroupRule rule;
      rule.name = "no_decay";
      rule.lr_mult = 0.25;
      rule.weight_decay_mult = 0;
      world.setup.groups.rules = {rule};
      world.setup.groups.of_tensor = {0, 0, 1, 1, 0, 0, 1, 1, 0, 1};
      world.setup.clip_groups = {{ClipGroupRule{"tight", {}, false, 0.01}},
                                 {1, 0, 0, 1, 0, 1, 0, 0, 1, 0}};
      world.setup.hyper.clip_value = 0.01;
      check_against_dense(world, "groups");
    }
  }
}

TEST_CASE("muon: state in fewer bits and a bf16 master equal the undistributed step") {
  const std::array<StateFormats, 3> formats = {
      {{StateFormat::bf16, StateFormat::fp32, MasterFormat::fp32},
       {StateFormat::e4m3, StateFormat::fp16, MasterFormat::fp32},
       {StateFormat::fp16, StateFormat::e4m3, MasterFormat::bf16}}};
  std::size_t turn = 0;
  for (const StateFormats& state : formats) {
    for (int stage = 0; stage <= 3; ++stage, ++turn) {
      for (const Grid& grid : {Grid{1, 3, 1, 1}, Grid{1, 2, 2, 1}, Grid{1, 1, 4, 1}}) {
        World world = muon_world(stage, grid, 3);
        world.setup.state_formats = state;
        world.setup.missing_grad = stage % 2 == 0 ? MissingGrad::skip : MissingGrad::zero;
        world.setup.param_rounding =
            turn % 2 == 0 ? ParamRounding::nearest : ParamRounding::stochastic;
        world.shards = ragged_map;
        check_against_dense(world, "formats");
      }
    }
  }
}

TEST_CASE("muon: parameters of every dtype equal the undistributed step") {
  std::size_t turn = 0;
  for (const DType dtype : {DType::fp32, DType::fp16, DType::e4m3, DType::e5m2}) {
    for (int stage = 0; stage <= 3; ++stage, ++turn) {
      for (const Grid& grid : {Grid{1, 3, 1, 1}, Grid{1, 2, 2, 1}}) {
        World world = muon_world(stage, grid, 3);
        world.setup.param_dtype = dtype;
        world.setup.scaling.recipe =
            std::array{ScaleRecipe::current, ScaleRecipe::delayed, ScaleRecipe::blockwise,
                       ScaleRecipe::mxfp8}[turn % 4];
        world.setup.missing_grad = stage % 2 == 1 ? MissingGrad::skip : MissingGrad::zero;
        check_against_dense(world, "dtype");
      }
    }
  }
}

TEST_CASE("muon: ranks join matrices that are updated, and nothing else") {
  // Matrices with elements: odd, qkv, gate, tall, thin.
  for (const MissingGrad missing : {MissingGrad::zero, MissingGrad::skip}) {
    for (int stage = 0; stage <= 3; ++stage) {
      World world = muon_world(stage, {1, 3}, 3);
      world.overflow_step = 0;
      world.setup.missing_grad = missing;
      std::array<std::uint64_t, 3> calls{}, expected{};
      run_grid(world.grid, [&](GridPlace place) {
        RecordingCommunicator recording(*place.comm);
        place.comm = &recording;
        WorldRank rank(world, place);
        rank.load();
        for (const std::int64_t step : {1, 2, 3}) {
          rank.prepare_grads(step);
          for (const Phase phase : all_phases) {
            if (phase == Phase::update) recording.reset();
            rank.optimizer->run_phase(phase, rank.grads);
            if (phase == Phase::update)
              calls[place.rank] += static_cast<std::uint64_t>(recording.traffic().total().calls);
          }
          for (const std::int64_t matrix : {1, 3, 5, 8, 9}) {
            bool used = missing == MissingGrad::zero;
            for (std::int64_t j = 0; j < 3; ++j) used = used || rank.grads.has_grad(j, matrix);
            expected[place.rank] += stage > 0 && used ? 1 : 0;
          }
        }
      });
      CHECK(calls == expected);
      CHECK((expected[0] < 15) == (stage == 0 || missing == MissingGrad::skip));
    }
  }
}

TEST_CASE("muon: the buffer orthogonal keeps its address, and is +0 after loading") {
  for (int stage = 0; stage <= 3; ++stage) {
    Alone rank(stage);  // one matrix, b
    rank.setup.hyper.rule = UpdateRule::muon;
    rank.setup.matrix_tensors = make_matrix_tensors({}, {}, rank.layout);
    rank.make();
    const TensorView before = rank.view(BufferId::orthogonal);
    CHECK((before.dtype == DType::fp32 && before.numel == rank.layout.padded_numel()));
    const auto values = [&] {
      const auto* data = static_cast<const float*>(rank.view(BufferId::orthogonal).data);
      return std::vector<float>(data, data + rank.layout.padded_numel());
    };
    const auto check = [&](bool updated) {
      const std::vector<float> now = values();
      for (const Piece& piece : rank.layout.pieces({{0, rank.layout.padded_numel()}})) {
        for (std::int64_t i = 0; i < piece.numel; ++i) {
          const float value = now[static_cast<std::size_t>(piece.local_begin + i)];
          const bool is_result = updated && rank.layout.tensors()[piece.tensor].name == "b";
          CHECK((bits(value) == bits(0.0F)) != is_result);
        }
      }
    };
    check(false);
    rank.run_up_to(Phase::clip);
    write(rank.view(BufferId::grad), 1e6F);  // of a vector: the matrix keeps its bits
    const std::vector<float> loaded = values();
    rank.run(Phase::update);
    CHECK(rank.view(BufferId::orthogonal).data == before.data);
    check(true);
    CHECK(bits(values()) != bits(loaded));
    rank.optimizer->load_state(rank.initial.view());
    check(false);
    // Other rules do not have it.
    Alone adamw(stage);
    adamw.make();
    CHECK(!has(*adamw.optimizer, BufferId::orthogonal));
  }
}

TEST_CASE("muon: an observer's gradient and momentum are those that the update reads") {
  for (const BufferId id : {BufferId::grad, BufferId::exp_avg}) {
    std::vector<std::vector<std::uint32_t>> results;
    for (const bool overwrite : {false, true}) {
      Alone rank(1);
      rank.setup.hyper.rule = UpdateRule::muon;
      rank.setup.hyper.momentum = 0.5;
      rank.setup.matrix_tensors = make_matrix_tensors({}, {}, rank.layout);
      rank.make();
      rank.run_up_to(Phase::clip);
      auto* data = static_cast<float*>(rank.view(id).data);
      if (overwrite) data[rank.layout.tensors()[2].begin + 5] = 1e3F;
      rank.run(Phase::update);
      const auto* result = static_cast<const float*>(rank.view(BufferId::orthogonal).data);
      results.push_back(bits(std::vector<float>(result, result + rank.layout.padded_numel())));
    }
    CHECK(results[0] != results[1]);
  }
}

TEST_CASE("muon: split matrices need their undistributed extents, and widths that cover them") {
  const auto refused = [](const std::function<void(OptimizerSetup&)>& change) {
    std::atomic<bool> all = true;
    const World world = muon_world(1, {1, 1, 2, 1}, 2);
    run_grid(world.grid, [&](const GridPlace& place) {
      WorldRank rank(world, place);
      change(rank.setup);
      try {
        reference::make_distributed_optimizer(rank.setup);
        all = false;
      } catch (const Error& error) {
        if (error.code() != ErrorCode::invalid_argument) all = false;
      }
    });
    return all.load();
  };
  CHECK(!refused([](OptimizerSetup&) {}));
  CHECK(refused([](OptimizerSetup& s) { s.matrices.clear(); }));
  CHECK(refused([](OptimizerSetup& s) { s.matrix_tensors.pop_back(); }));
  CHECK(refused([](OptimizerSetup& s) { s.matrix_tensors[3].widths = {5}; }));      // of 24 rows
  CHECK(!refused([](OptimizerSetup& s) { s.matrix_tensors[3].widths = {8}; }));     // not of 12
  CHECK(refused([](OptimizerSetup& s) { s.matrix_tensors[7].is_matrix = true; }));  // cube
}

}  // namespace muon_worlds_test
