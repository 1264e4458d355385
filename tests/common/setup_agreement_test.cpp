// Ranks with different settings: every difference is detected, and named on every rank.

#include "common/step/setup_agreement.hpp"

#include <doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/comm/threads.hpp"

namespace setup_agreement_test {

using namespace zeroproof;

namespace {

/// One rank of 2 instances of 2 ranks and 2 TP ranks each. The parts of the TP ranks differ, as they may.
struct Rank {
  explicit Rank(Communicator& world)
      : tp_rank(world.rank() % 2),
        tp(world.split(world.rank() / 2)),
        comm(world.split(world.rank() / 4 * 2 + tp_rank)),
        replicas(world.split(world.rank() % 4)),
        layout({{"a", {3, 700 + tp_rank}}, {"b", {5}}}),
        shards(layout.padded_numel(), 2, 2048 - 1024 * tp_rank) {
    setup.layout = &layout;
    setup.shards = &shards;
    setup.comm = comm.get();
    setup.replicas = replicas.get();
    setup.tp = tp.get();
    setup.placement = {{false, tp_rank, 1, 2}, {}};
    setup.groups.rules.resize(1);
    setup.groups.rules[0].name = "flat";
    setup.groups.of_tensor = {0, 1};
    setup.clip_groups = {{{"flat", {}, false, {}}}, {0, 1}};
    setup.missing_grad = MissingGrad::skip;
    state.tensor_steps = tensor_steps;
  }

  int tp_rank;
  std::unique_ptr<Communicator> tp, comm, replicas;
  FlatLayout layout;
  ShardMap shards;
  std::vector<std::uint64_t> tensor_steps = {3, 1};
  OptimizerSetup setup;
  FullState state;
};

using Change = std::function<void(Rank&)>;

/// The error of all ranks if some of them are changed, "" if none.
std::string complaint(const std::vector<int>& culprits, const Change& change) {
  std::vector<std::string> texts(8);
  ThreadWorld world(8);
  run_ranks(world, [&](Communicator& comm) {
    Rank rank(comm);
    for (const int culprit : culprits) {
      if (comm.rank() == culprit) change(rank);
    }
    try {
      require_same_setup(rank.setup, rank.state);
    } catch (const Error& error) {
      texts[comm.rank()] = error.code() == ErrorCode::comm ? error.what() : "another error";
    }
  });
  for (const std::string& text : texts) CHECK(text == texts[0]);
  return texts[0].substr(0, texts[0].find(" ("));
}

struct Difference {
  std::string setting;
  Change change;
};

void check_named(const std::vector<Difference>& differences) {
  for (const auto& [setting, change] : differences) {
    CHECK(complaint({5}, change) ==
          "the values of " + setting + " of rank 5 differ from those of rank 0");
  }
}

}  // namespace

TEST_CASE("same setup: equal ranks agree, and may execute differently") {
  CHECK(complaint({}, {}) == "");
  CHECK(complaint({5}, [](Rank& r) { r.setup.exec = {3, Isa::x86_64}; }) == "");
}

TEST_CASE("same setup: settings of the step") {
  check_named({
      {"groups.rules", [](Rank& r) { r.setup.groups.rules.clear(); }},
      {"groups.rules", [](Rank& r) { r.setup.groups.rules[0].name = "other"; }},
      {"groups.rules", [](Rank& r) { r.setup.groups.rules[0].match = {"b"}; }},
      {"groups.rules", [](Rank& r) { r.setup.groups.rules[0].vectors = true; }},
      {"groups.rules", [](Rank& r) { r.setup.groups.rules[0].lr_mult = 2; }},
      {"groups.rules", [](Rank& r) { r.setup.groups.rules[0].weight_decay_mult = 0; }},
      {"groups.rules", [](Rank& r) { r.setup.groups.rules[0].lr = 0; }},
      {"groups.rules", [](Rank& r) { r.setup.groups.rules[0].min_lr = 1; }},
      {"groups.of_tensor",
       [](Rank& r) {
         r.setup.groups.of_tensor = {1, 0};
       }},
      {"groups.schedule", [](Rank& r) { r.setup.groups.schedule.unit = ScheduleUnit::samples; }},
      {"groups.schedule", [](Rank& r) { r.setup.groups.schedule.first_is_zero = true; }},
      {"groups.schedule", [](Rank& r) { r.setup.groups.schedule.warmup = 1; }},
      {"groups.schedule", [](Rank& r) { r.setup.groups.schedule.warmup_init_lr = 1; }},
      {"groups.schedule", [](Rank& r) { r.setup.groups.schedule.warmup_shape = WarmupShape::log; }},
      {"groups.schedule", [](Rank& r) { r.setup.groups.schedule.rates = {0.5}; }},
      {"groups.schedule", [](Rank& r) { r.setup.groups.schedule.decay = DecayShape::cosine; }},
      {"groups.schedule", [](Rank& r) { r.setup.groups.schedule.decay_end = 9; }},
      {"groups.schedule", [](Rank& r) { r.setup.groups.schedule.min_lr = 1; }},
      {"groups.schedule", [](Rank& r) { r.setup.groups.schedule.wsd_decay = 1; }},
      {"groups.schedule", [](Rank& r) { r.setup.groups.schedule.wsd_shape = WsdShape::cosine; }},
      {"groups.schedule",
       [](Rank& r) { r.setup.groups.schedule.weight_decay_ramp = RampShape::linear; }},
      {"groups.schedule", [](Rank& r) { r.setup.groups.schedule.weight_decay_begin = 1; }},
      {"groups.schedule", [](Rank& r) { r.setup.groups.schedule.weight_decay_end = 1; }},
      {"clip_groups.rules", [](Rank& r) { r.setup.clip_groups.rules[0].name = "other"; }},
      {"clip_groups.rules", [](Rank& r) { r.setup.clip_groups.rules[0].match = {"b"}; }},
      {"clip_groups.rules", [](Rank& r) { r.setup.clip_groups.rules[0].vectors = true; }},
      {"clip_groups.rules", [](Rank& r) { r.setup.clip_groups.rules[0].max_norm = 0; }},
      {"clip_groups.of_tensor",
       [](Rank& r) {
         r.setup.clip_groups.of_tensor = {1, 0};
       }},
      {"param_dtype", [](Rank& r) { r.setup.param_dtype = DType::fp16; }},
      {"scaling.recipe", [](Rank& r) { r.setup.scaling.recipe = ScaleRecipe::mxfp8; }},
      {"scaling.value", [](Rank& r) { r.setup.scaling.value = QuantizedValue::through_bf16; }},
      {"scaling.initial_master",
       [](Rank& r) { r.setup.scaling.initial_master = InitialMaster::dequantised; }},
      {"scaling.columnwise", [](Rank& r) { r.setup.scaling.columnwise = true; }},
      {"scaling.epsilon", [](Rank& r) { r.setup.scaling.epsilon = 0x1p-149F; }},
      {"scaling.power_of_two", [](Rank& r) { r.setup.scaling.power_of_two = true; }},
      {"scaling.blocks", [](Rank& r) { r.setup.scaling.blocks = ScaleBlocks::row_128; }},
      {"scaling.margin", [](Rank& r) { r.setup.scaling.margin = 1; }},
      {"scaling.history", [](Rank& r) { r.setup.scaling.history = 16; }},
      {"scaling.choice", [](Rank& r) { r.setup.scaling.choice = AmaxChoice::most_recent; }},
      {"scaling.empty", [](Rank& r) { r.setup.scaling.empty = EmptyAmax::roll; }},
      {"matrices",
       [](Rank& r) {
         r.setup.matrices = {{0, 3, 700}, {3072, 1, 5}};
       }},
      {"micro_batches", [](Rank& r) { r.setup.micro_batches = 2; }},
      {"grad_sum", [](Rank& r) { r.setup.grad_sum = GradSum::binned; }},
      {"loss_reduction", [](Rank& r) { r.setup.loss_reduction = LossReduction::tokens; }},
      {"on_nonfinite", [](Rank& r) { r.setup.on_nonfinite = OnNonfinite::error; }},
      {"missing_grad", [](Rank& r) { r.setup.missing_grad = MissingGrad::zero; }},
      {"param_rounding", [](Rank& r) { r.setup.param_rounding = ParamRounding::stochastic; }},
      {"seed", [](Rank& r) { r.setup.seed = std::uint64_t{1} << 63; }},
  });
}

TEST_CASE("same setup: hyper-parameters and loss scaler") {
  check_named({
      {"hyper.rule", [](Rank& r) { r.setup.hyper.rule = UpdateRule::adam; }},
      {"hyper.lr", [](Rank& r) { r.setup.hyper.lr *= 1 + 0x1p-52; }},
      {"hyper.beta1", [](Rank& r) { r.setup.hyper.beta1 = 0.8F; }},
      {"hyper.beta2", [](Rank& r) { r.setup.hyper.beta2 = 0.99F; }},
      {"hyper.eps", [](Rank& r) { r.setup.hyper.eps = 1e-7; }},
      {"hyper.weight_decay", [](Rank& r) { r.setup.hyper.weight_decay = 0; }},
      {"hyper.bias_correction", [](Rank& r) { r.setup.hyper.bias_correction = false; }},
      {"hyper.amsgrad", [](Rank& r) { r.setup.hyper.amsgrad = true; }},
      {"hyper.maximize", [](Rank& r) { r.setup.hyper.maximize = true; }},
      {"hyper.momentum", [](Rank& r) { r.setup.hyper.momentum = 0.5; }},
      {"hyper.dampening", [](Rank& r) { r.setup.hyper.dampening = 0.5; }},
      {"hyper.nesterov", [](Rank& r) { r.setup.hyper.nesterov = true; }},
      {"hyper.norm", [](Rank& r) { r.setup.hyper.norm = NormForm::inf; }},
      {"hyper.max_norm", [](Rank& r) { r.setup.hyper.max_norm = 2; }},
      {"hyper.max_norm", [](Rank& r) { r.setup.hyper.max_norm.reset(); }},
      {"hyper.clip_value", [](Rank& r) { r.setup.hyper.clip_value = 0; }},
      {"scaler.kind", [](Rank& r) { r.setup.scaler.kind = LossScalerKind::dynamic; }},
      {"scaler.log2_initial", [](Rank& r) { r.setup.scaler.log2_initial = -1; }},
      {"scaler.log2_growth", [](Rank& r) { r.setup.scaler.log2_growth = 2; }},
      {"scaler.log2_backoff", [](Rank& r) { r.setup.scaler.log2_backoff = 2; }},
      {"scaler.log2_min", [](Rank& r) { r.setup.scaler.log2_min = -1; }},
      {"scaler.log2_max", [](Rank& r) { r.setup.scaler.log2_max = 63; }},
      {"scaler.growth_interval", [](Rank& r) { r.setup.scaler.growth_interval = 1; }},
      {"scaler.hysteresis", [](Rank& r) { r.setup.scaler.hysteresis = 2; }},
      {"scaler.refill", [](Rank& r) { r.setup.scaler.refill = HysteresisRefill::good_step; }},
  });
}

TEST_CASE("same setup: the rule muon") {
  check_named({
      {"hyper.muon.family",
       [](Rank& r) { r.setup.hyper.muon.family = MomentumFamily::heavy_ball; }},
      {"hyper.muon.coefficients",
       [](Rank& r) { r.setup.hyper.muon.newton_schulz.coefficients = NewtonSchulzSet::quintic; }},
      {"hyper.muon.steps", [](Rank& r) { r.setup.hyper.muon.newton_schulz.steps = 6; }},
      {"hyper.muon.form",
       [](Rank& r) { r.setup.hyper.muon.newton_schulz.form = PolynomialForm::scaled_factor; }},
      {"hyper.muon.factors",
       [](Rank& r) { r.setup.hyper.muon.newton_schulz.factors = MatrixFactors::fp32; }},
      {"hyper.muon.floor",
       [](Rank& r) { r.setup.hyper.muon.newton_schulz.floor = NormFloor::add; }},
      {"hyper.muon.eps", [](Rank& r) { r.setup.hyper.muon.newton_schulz.eps *= 1 + 0x1p-52; }},
      {"hyper.muon.rounds_first",
       [](Rank& r) { r.setup.hyper.muon.newton_schulz.rounds_first = true; }},
      {"hyper.muon.scale", [](Rank& r) { r.setup.hyper.muon.scale = MuonScale::none; }},
      {"hyper.muon.scale_factor", [](Rank& r) { r.setup.hyper.muon.scale_factor = 2; }},
      {"matrix_tensors",
       [](Rank& r) {
         r.setup.matrix_tensors = {{true, false, {}}, {}};
       }},
      {"matrix_owners", [](Rank& r) { r.setup.matrix_owners = MatrixOwners::balanced; }},
      {"matrix_tensor_parallel",
       [](Rank& r) { r.setup.matrix_tensor_parallel = MatrixTensorParallel::distributed; }},
  });
  // Every member of a matrix.
  for (const MatrixTensor& other : {MatrixTensor{true, true, {1, 2}}, MatrixTensor{true, false, {}},
                                    MatrixTensor{true, false, {2, 1}}}) {
    std::vector<std::string> texts(8);
    ThreadWorld world(8);
    run_ranks(world, [&](Communicator& comm) {
      Rank rank(comm);
      rank.setup.matrix_tensors = {{true, false, {1, 2}}, {}};
      if (comm.rank() == 5) rank.setup.matrix_tensors[0] = other;
      try {
        require_same_setup(rank.setup, rank.state);
      } catch (const Error& error) {
        texts[comm.rank()] = error.what();
      }
    });
    CHECK(texts[0].find("the values of matrix_tensors of rank 5 differ") == 0);
  }
}

TEST_CASE("same setup: distribution of the step, and counters") {
  check_named({
      {"cp", [](Rank& r) { r.setup.cp = 2; }},
      {"stage", [](Rank& r) { r.setup.stage = 2; }},
      {"order", [](Rank& r) { r.setup.order = MicroBatchOrder::strided; }},
      {"persistent_numel", [](Rank& r) { r.setup.persistent_numel = 5; }},
      {"overlap", [](Rank& r) { r.setup.overlap = true; }},
      {"grad_dtype", [](Rank& r) { r.setup.grad_dtype = DType::bf16; }},
      {"state.applied_steps", [](Rank& r) { r.state.applied_steps = 1; }},
      {"state.scaler.log2_scale", [](Rank& r) { r.state.scaler.log2_scale = 1; }},
      {"state.scaler.growth_tracker", [](Rank& r) { r.state.scaler.growth_tracker = 1; }},
      {"state.scaler.hysteresis_left", [](Rank& r) { r.state.scaler.hysteresis_left = 2; }},
      {"state.tensor_steps", [](Rank& r) { r.tensor_steps[1] = 0; }},
  });
}

TEST_CASE(
    "same setup: a TP rank's own layout, shards and placement are compared among its data ranks") {
  const auto named = [](const std::string& what, const Change& change) {
    CHECK(complaint({5}, change) == "the " + what + " of rank 5 differ from those of rank 1");
  };
  named("layouts", [](Rank& r) { r.layout = FlatLayout({{"a", {3, 701}}, {"c", {5}}}); });
  named("layouts", [](Rank& r) { r.layout = FlatLayout({{"a", {701, 3}}, {"b", {5}}}); });
  named("shard maps", [](Rank& r) { r.shards = ShardMap(r.layout.padded_numel(), 2, 4096); });
  named("shard maps", [](Rank& r) {
    const std::int64_t all = r.layout.padded_numel();
    r.shards = ShardMap(all, 2, {Bucket{{0, all}, {{{1024, all}}, {{0, 1024}}}}});
  });
  named("placements", [](Rank& r) { r.setup.placement[0].tp_replicated = true; });
  named("placements", [](Rank& r) { r.setup.placement[0].begin = 0; });
  named("placements", [](Rank& r) { r.setup.placement[0].row_numel = 2; });
  named("placements", [](Rank& r) { r.setup.placement[0].row_stride = 3; });
  named("placements", [](Rank& r) { r.setup.placement.clear(); });
}

TEST_CASE("same setup: the first setting that differs, and all ranks on which it does") {
  const auto both = [](Rank& r) {
    r.setup.seed = 2;
    r.setup.stage = 3;
  };
  CHECK(complaint({2, 3, 7}, both) ==
        "the values of seed of ranks 2, 3 and 7 differ from those of rank 0");
  CHECK(complaint({0, 1, 2, 3, 4, 5, 6, 7}, both) == "");
  CHECK(complaint({0}, both) ==
        "the values of seed of ranks 1, 2, 3, 4, 5, 6 and 7 differ from those of rank 0");
}

TEST_CASE("same setup of L-BFGS: layouts and shard maps too") {
  const auto said = [](const std::function<void(LbfgsSetup&)>& change) {
    std::vector<std::string> texts(3);
    ThreadWorld world(3);
    const FlatLayout layout({{"a", {3000}}});
    const ShardMap shards(layout.padded_numel(), 3, 3072);
    run_ranks(world, [&](Communicator& comm) {
      LbfgsSetup setup{&layout, &shards, &comm, {}, {}};
      if (comm.rank() == 1) change(setup);
      try {
        require_same_setup(setup, {});
      } catch (const Error& error) {
        texts[comm.rank()] = error.what();
      }
    });
    for (const std::string& text : texts) CHECK(text == texts[0]);
    return texts[0].substr(0, texts[0].find(" ("));
  };
  const FlatLayout other({{"b", {3000}}});
  const ShardMap two_buckets(other.padded_numel(), 3, 2048);
  CHECK(said([](LbfgsSetup& s) { s.exec.num_threads = 2; }) == "");
  CHECK(said([&](LbfgsSetup& s) { s.layout = &other; }) ==
        "the layouts of rank 1 differ from those of rank 0");
  CHECK(said([&](LbfgsSetup& s) { s.shards = &two_buckets; }) ==
        "the shard maps of rank 1 differ from those of rank 0");
}

}  // namespace setup_agreement_test
