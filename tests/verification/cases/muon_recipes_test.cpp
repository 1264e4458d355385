// The rule muon in recipes, settings and the setup of an experiment (R28).

#include <doctest.h>

#include <string>
#include <vector>

#include "tests/support/complaint.hpp"
#include "verification/cases/case_layout.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cases/recipes.hpp"
#include "verification/cases/run_plan.hpp"
#include "verification/training/gradients/step_grads.hpp"

using namespace zeroproof;
using namespace zeroproof::verification;
using zeroproof_test::complaint;

namespace {

Experiment tiny(const std::string& recipe) {
  const RunConfig config = under_recipe(workload_defaults("byte_gpt_tiny"), recipe);
  return {"byte_gpt_tiny", config, DType::fp32, load_text(config), recipe};
}

/// Names of the matrices of a setup, and of those that have parts.
std::vector<std::string> matrices(const OptimizerSetup& setup, bool with_parts = false) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < setup.matrix_tensors.size(); ++i) {
    const MatrixTensor& tensor = setup.matrix_tensors[i];
    if (tensor.is_matrix && (!with_parts || !tensor.widths.empty()))
      names.push_back(setup.layout->tensors()[i].name);
  }
  return names;
}

}  // namespace

TEST_CASE("recipes: muon has Nesterov momentum, and its options do not carry over to other rules") {
  const RunConfig muon = under_recipe(tiny_config(), "muon");
  CHECK(muon.optimizer.rule == UpdateRule::muon);
  CHECK(muon.optimizer.momentum == 0.95);
  CHECK(muon.optimizer.nesterov);
  RunConfig configured = tiny_config();
  apply_toml(configured,
             "[optimizer]\nrule = \"muon\"\nmomentum = 0.5\nnesterov = true\n[muon]\nsteps = 3\n"
             "adamw = [\"*embedding*\"]\nowners = \"round_robin\"\n"
             "[[matrix_split]]\nname = \"a\"\nmatch = [\"*.up.*\"]\nrows = [5]\n",
             "file");
  CHECK(under_recipe(configured, "muon").optimizer.momentum == 0.5);  // it is the configured one
  CHECK(under_recipe(configured, "muon").optimizer.muon.newton_schulz.steps == 3);
  for (const Recipe& recipe : recipes()) {
    const RunConfig config = under_recipe(configured, std::string(recipe.name));
    CAPTURE(recipe.name);
    if (recipe.name == "muon") continue;
    if (config.optimizer.rule == UpdateRule::muon) {
      CHECK(config.muon_adamw == configured.muon_adamw);  // names of the model
      CHECK(config.optimizer.muon.newton_schulz.steps != 3);
      continue;
    }
    CHECK(config.optimizer.muon == MuonSettings{});
    CHECK(config.muon_adamw == tiny_config().muon_adamw);
    CHECK(config.matrix_splits.empty());
    CHECK(config.matrix_owners == MatrixOwners::every);
  }
}

TEST_CASE("recipes: settings of muon follow its name") {
  const RunConfig config = under_recipe(
      tiny_config(),
      "muon+owners:balanced+split:heads+coefficients:cans+form:scaled_product+factors:fp32+"
      "muon_scale:spectral+family:heavy_ball+momentum:0+ns_steps:9+matrices:all");
  CHECK(config.matrix_owners == MatrixOwners::balanced);
  REQUIRE(config.matrix_splits.size() == 1);
  CHECK(config.matrix_splits[0].columns == std::vector<std::int64_t>{5, 5, 5});
  const MuonSettings& muon = config.optimizer.muon;
  CHECK(muon.newton_schulz.coefficients == NewtonSchulzSet::cans);
  CHECK(muon.newton_schulz.form == PolynomialForm::scaled_product);
  CHECK(muon.newton_schulz.factors == MatrixFactors::fp32);
  CHECK(muon.newton_schulz.steps == 9);
  CHECK(muon.scale == MuonScale::spectral);
  CHECK(muon.family == MomentumFamily::heavy_ball);
  CHECK(config.optimizer.momentum == 0);
  CHECK_FALSE(config.optimizer.nesterov);  // it needs momentum
  CHECK(config.muon_adamw.empty());
  CHECK_NOTHROW(validate(config));
  CHECK(complaint([] {
          validate(under_recipe(tiny_config(), "adamw+owners:balanced"));
        }).find("is set with the rule adamw") != std::string::npos);
}

TEST_CASE("recipes: distributed matrices need TP ranks and the step of the host") {
  CaseSpec spec;
  spec.workload = "byte_gpt_tiny";
  spec.recipe = "muon+model:even+norm:exact+tensor_parallel:distributed";
  spec.world = parse_world("threads:2");
  spec.place.grid = ProcessGrid{1, 1, 2};
  const RunConfig config = config_of({}, spec);
  CHECK(config.matrix_tensor_parallel == MatrixTensorParallel::distributed);
  const Experiment experiment("byte_gpt_tiny", config, DType::bf16, load_text(config), spec.recipe);
  CHECK(experiment.setup().matrix_tensor_parallel == MatrixTensorParallel::distributed);
  CHECK(under_recipe(config, "muon-heavy-max").matrix_tensor_parallel ==
        MatrixTensorParallel::duplicated);
  const auto complaint_of = [&](const auto& change) {
    CaseSpec other = spec;
    change(other);
    return complaint([&] { config_of({}, other); });
  };
  const std::string what = "muon.tensor_parallel is \"distributed\" with ";
  CHECK(complaint_of([](CaseSpec& s) { s.place.grid.reset(); }).find(what + "one TP rank") == 0);
  CHECK(complaint_of([](CaseSpec& s) {
          s.place.grid = ProcessGrid{2, 1, 1};
        }).find(what + "one TP rank") == 0);
  CHECK(complaint_of([](CaseSpec& s) {
          s.implementation = Implementation::device_fused;
        }).find(what + "the candidate device-fused") == 0);
}

TEST_CASE("experiment: the setup has the matrices of muon and their parts, on every TP rank") {
  CHECK(tiny("adamw").setup().matrix_tensors.empty());
  const Experiment muon = tiny("muon");
  const OptimizerSetup setup = muon.setup();
  CHECK(setup.matrix_owners == MatrixOwners::every);
  REQUIRE(setup.matrix_tensors.size() == muon.layout().tensors().size());
  std::vector<std::string> names;
  for (const std::string block : {"block0.", "block1."}) {
    for (const char* name : {"attention.query", "attention.key", "attention.value",
                             "attention.output", "mlp.up", "mlp.down"})
      names.push_back(block + name + ".weight");
  }
  CHECK(matrices(setup) == names);
  CHECK(matrices(setup, true).empty());
  const Experiment heavy = tiny("muon-heavy-max");
  CHECK(heavy.setup().matrix_owners == MatrixOwners::balanced);
  CHECK(matrices(heavy.setup(), true).size() == 6);
  CHECK(matrices(tiny("muon+matrices:all").setup()).size() == names.size() + 3);

  const Experiment even = tiny("muon+model:even+norm:exact+split:interleaved");
  CaseSpec spec;
  spec.place.grid = ProcessGrid{1, 1, 2};
  const CaseLayout layout(even, spec, 2);
  for (const int rank : {0, 1}) {
    OptimizerSetup placed = even.setup();
    place_setup(placed, spec, layout, rank);
    CHECK(matrices(placed) == names);
    CHECK(matrices(placed, true) == std::vector<std::string>{"block0.attention.output.weight",
                                                             "block1.attention.output.weight"});
    CHECK(placed.matrices.size() == placed.matrix_tensors.size());
  }
}

TEST_CASE("experiment: globs and splits of muon that fit no matrix are refused") {
  const auto refused = [](const std::string& toml) {
    RunConfig config = under_recipe(workload_defaults("byte_gpt_tiny"), "muon");
    apply_toml(config, toml, "file");
    return complaint(
        [&] { Experiment("byte_gpt_tiny", config, DType::fp32, load_text(config), "muon"); });
  };
  CHECK(
      refused("[muon]\nadamw = [\"lm_head\"]").find("'lm_head' in muon.adamw matches no tensor") ==
      0);
  const auto split = [](const std::string& rest) {
    return "[[matrix_split]]\nname = \"s\"\nmatch = [\"*.query.weight\"]\n" + rest;
  };
  CHECK(refused(split("rows = [4]")).find("matrix split 's' has a period of 4") == 0);
  CHECK(refused(split("columns = [5, 0]")).find("matrix split 's' has a part of 0") == 0);
  CHECK(refused(split("")).find("matrix split 's' has neither rows nor columns") == 0);
  CHECK(refused(split("rows = [5]\ncolumns = [5]")).find("matrix split 's' has rows and columns") ==
        0);
  CHECK(refused("[[matrix_split]]\nname = \"s\"\nmatch = [\"*.bias\"]\nrows = [5]")
            .find("matrix split 's' matches no matrix") == 0);
  CHECK(refused(split("rows = [3, 2]")).empty());
}
