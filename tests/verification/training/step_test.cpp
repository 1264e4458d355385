// The production optimizer as a trainer calls it: step() with an observer, odd sizes, every dtype,
// fused or not, every rule, norm form and policy.

#include <set>
#include <vector>

#include "common/base/error.hpp"
#include "tests/reference/zero/reference_world.hpp"
#include "tests/support/production.hpp"
#include "verification/training/case_run.hpp"

namespace step_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

struct Recipe {
  const char* name;
  OptimizerHyper hyper = {};
  LossReduction loss_reduction = LossReduction::mean;
  OnNonfinite on_nonfinite = OnNonfinite::skip;
  MissingGrad missing_grad = MissingGrad::zero;
  ParamRounding param_rounding = ParamRounding::nearest;
};

/// Every rule, norm form and policy at least once; each differs from the rest by the setting in its
/// name.
std::vector<Recipe> recipes() {
  std::vector<Recipe> all = {{"adamw"}};
  const auto add = [&](const char* name, auto change) {
    Recipe recipe{name};
    change(recipe);
    all.push_back(recipe);
  };
  add("adamw amsgrad maximize", [](Recipe& r) { r.hyper.amsgrad = r.hyper.maximize = true; });
  add("adam amsgrad clip_value", [](Recipe& r) {
    r.hyper.rule = UpdateRule::adam;
    r.hyper.amsgrad = true;
    r.hyper.clip_value = 0.01;
  });
  add("sgd without momentum, norm one", [](Recipe& r) {
    r.hyper.rule = UpdateRule::sgd;
    r.hyper.norm = NormForm::one;
  });
  add("sgd nesterov maximize, norm exact", [](Recipe& r) {
    r.hyper.rule = UpdateRule::sgd;
    r.hyper.momentum = 0.9;
    r.hyper.nesterov = r.hyper.maximize = true;
    r.hyper.norm = NormForm::exact;
  });
  add("sgd dampening, tokens", [](Recipe& r) {
    r.hyper.rule = UpdateRule::sgd;
    r.hyper.momentum = 0.9;
    r.hyper.dampening = 0.5;
    r.loss_reduction = LossReduction::tokens;
  });
  add("sgd_ema, norm inf", [](Recipe& r) {
    r.hyper.rule = UpdateRule::sgd_ema;
    r.hyper.norm = NormForm::inf;
  });
  add("lion, norm one", [](Recipe& r) {
    r.hyper.rule = UpdateRule::lion;
    r.hyper.norm = NormForm::one;
  });
  add("lamb, norm inf", [](Recipe& r) {
    r.hyper.rule = UpdateRule::lamb;
    r.hyper.norm = NormForm::inf;
  });
  add("lamb maximize, tensors without gradient", [](Recipe& r) {
    r.hyper.rule = UpdateRule::lamb;
    r.hyper.maximize = true;
    r.missing_grad = MissingGrad::skip;
  });
  add("adamw, propagate", [](Recipe& r) { r.on_nonfinite = OnNonfinite::propagate; });
  add("adamw, tensors without gradient", [](Recipe& r) { r.missing_grad = MissingGrad::skip; });
  add("adamw, stochastic rounding",
      [](Recipe& r) { r.param_rounding = ParamRounding::stochastic; });
  add("sgd nesterov, tensors without gradient, stochastic rounding", [](Recipe& r) {
    r.hyper.rule = UpdateRule::sgd;
    r.hyper.momentum = 0.9;
    r.hyper.nesterov = true;
    r.missing_grad = MissingGrad::skip;
    r.param_rounding = ParamRounding::stochastic;
  });
  return all;
}

/// A tensor of every unfavourable size; the middle one has no elements.
CutTensors awkward_tensors() {
  return {{{"one", {}},
           {"seven", {7}},
           {"none", {0, 5}},
           {"chunk", {1024}},
           {"odd", {3, 701}},
           {"last", {1025}}}};
}

LossScalerConfig scaler() {
  LossScalerConfig config;
  config.kind = LossScalerKind::dynamic;
  config.log2_initial = 4;
  config.growth_interval = 2;
  config.hysteresis = 2;
  return config;
}

struct Config {
  int world;
  int stage;
  DType param, leaf;
  bool fused;
  std::int64_t micro_batches;
};

/// Four steps, the second one overflowing; every rank must have the dense optimizer's values.
void run(const Config& c, const Recipe& recipe) {
  const bool gaps = recipe.missing_grad == MissingGrad::skip;
  World world{awkward_tensors(), production(c.fused), {1, c.world}};
  world.applied_steps = gaps ? 7 : 0;  // the momentum buffer of sgd starts with step 1
  OptimizerSetup& setup = world.setup;
  setup.stage = c.stage;
  setup.param_dtype = c.param;
  setup.grad_dtype = c.leaf;
  setup.micro_batches = c.micro_batches;
  setup.hyper = recipe.hyper;
  setup.scaler = scaler();
  setup.loss_reduction = recipe.loss_reduction;
  setup.on_nonfinite = recipe.on_nonfinite;
  setup.missing_grad = recipe.missing_grad;
  setup.param_rounding = recipe.param_rounding;
  setup.seed = 77;
  setup.exec.num_threads = 2;
  WorldTruth truth = dense_truth(world);
  for (StepTruth& step : truth) {
    // A fused pass keeps no gradients; a skipped step has no clipped gradient and no norm.
    if (c.fused) step.buffers.erase(BufferId::unscaled_grad);
    if (c.fused || !step.applied) step.buffers.erase(BufferId::grad);
    if (!step.applied) step.buffers.erase(BufferId::norm_limbs);
    if (!step.applied) step.buffers.erase(BufferId::grad_amax);
  }
  check_world(world, truth, recipe.name);
}

}  // namespace

TEST_CASE(
    "step() gives the undistributed bits: worlds, stages, dtypes, forms, more ranks than work") {
  const Recipe adamw{"adamw"};
  for (const bool fused : {false, true}) {
    for (const int stage : {0, 1, 2}) {
      for (const int world : {1, 2, 5, 9}) {
        run({world, stage, DType::bf16, DType::fp32, fused, 3}, adamw);
      }
      run({3, stage, DType::fp16, DType::fp16, fused, 7}, adamw);
      run({3, stage, DType::fp32, DType::bf16, fused, 2}, adamw);
    }
  }
}

TEST_CASE("step() gives the undistributed bits: every rule, norm form and policy") {
  for (const Recipe& recipe : recipes()) {
    for (const bool fused : {false, true}) {
      for (const int stage : {0, 1, 2}) run({3, stage, DType::bf16, DType::fp32, fused, 5}, recipe);
      if (recipe.param_rounding == ParamRounding::stochastic) continue;
      run({2, 1, DType::fp16, DType::bf16, fused, 4}, recipe);
    }
  }
}

TEST_CASE("run_phase: phases out of order are errors") {
  World world{awkward_tensors(), production()};
  world.overflow_step = 1;
  world.setup.micro_batches = 2;
  run_grid({}, [&](const GridPlace& place) {
    WorldRank rank(world, place);
    const auto optimizer = world.make(rank.setup);
    CHECK_THROWS_AS(optimizer->run_phase(Phase::prepare, rank.grads), Error);  // nothing was loaded
    rank.load();
    CHECK_FALSE(rank.optimizer->step(rank.grads));
    CHECK_THROWS_AS(rank.optimizer->run_phase(Phase::update, rank.grads),
                    Error);  // the step is skipped
    NumberedGrads wrong_dtype(rank.model, {DType::bf16, 2});
    rank.optimizer->run_phase(Phase::prepare, wrong_dtype);
    CHECK_THROWS_AS(rank.optimizer->run_phase(Phase::reduce, wrong_dtype), Error);
  });
}

TEST_CASE("implementations: built as named, fused passes show neither g1 nor g") {
  const FlatLayout layout(awkward_tensors().params);
  const ShardMap shards(layout.padded_numel(), 1, 1024);
  const std::unique_ptr<Communicator> comm = make_self_communicator();
  OptimizerSetup setup;
  setup.layout = &layout;
  setup.shards = &shards;
  setup.comm = comm.get();
  const auto shown = [&](verification::Implementation implementation, Phase phase) {
    const auto optimizer = verification::candidate_factory(implementation)(setup);
    std::set<BufferId> ids;
    for (const ExposedBuffer& buffer : optimizer->exposed(phase)) ids.insert(buffer.id);
    return ids;
  };
  const auto shows = [&](verification::Implementation implementation) {
    return shown(implementation, Phase::unscale).count(BufferId::unscaled_grad) +
           shown(implementation, Phase::clip).count(BufferId::grad);
  };
  CHECK(name(verification::Implementation::host) == "host");
  CHECK(shows(verification::Implementation::host) == 2);
  CHECK(name(verification::Implementation::host_fused) == "host-fused");
  CHECK(shows(verification::Implementation::host_fused) == 0);
}

}  // namespace step_test
