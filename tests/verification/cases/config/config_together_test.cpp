// Values that are valid alone and incompatible together; unknown words and tables.

#include <doctest.h>

#include <string>
#include <utility>

#include "tests/verification/cases/config/config_cases.hpp"

using namespace zeroproof;
using namespace zeroproof_test;

TEST_CASE("config: param groups of a wrong shape or type are refused with file, line and key") {
  check_refused("[param_group]\nname = \"a\"", 1, "param_group");
  check_refused("param_group = 1", 1, "param_group");
  check_refused("param_group = [1]", 1, "[[param_group]]");
  check_refused("[clip_group]\nname = \"a\"", 1, "clip_group");
  check_refused("[matrix_split]\nname = \"a\"", 1, "matrix_split");
  check_refused("matrix_split = [1]", 1, "[[matrix_split]]");
  check_refused("\n[[matrix_split]]\nrows = 5", 3, "matrix_split.rows");
  check_refused("\n[[matrix_split]]\ncolumns = [1.5]", 3, "an integer");
  check_refused("\n[[matrix_split]]\nmatch = \"*\"", 3, "matrix_split.match");
  check_refused("clip_group = [1]", 1, "[[clip_group]]");
  check_refused("\n[[clip_group]]\nmax_norm = \"1\"", 3, "clip_group.max_norm");
  check_refused("\n[[clip_group]]\nmatch = \"*\"", 3, "clip_group.match");
  const std::pair<const char*, const char*> lines[] = {
      {"name = 1", "param_group.name"},
      {"match = \"*\"", "param_group.match"},
      {"match = [1]", "param_group.match"},
      {"vectors = 1", "param_group.vectors"},
      {"lr_mult = \"2\"", "param_group.lr_mult"},
      {"weight_decay_mult = true", "param_group.weight_decay_mult"},
      {"lr = []", "param_group.lr"},
      {"min_lr = \"0\"", "param_group.min_lr"},
  };
  for (const auto& line : lines)
    check_refused(std::string("\n[[param_group]]\n") + line.first, 3, line.second);
}

TEST_CASE("config: an unknown word is refused with the nearest one that exists") {
  check_refused(in_line_3("run.layouts", "[\"deepspeed_flt\"]"), 3, "perhaps \"deepspeed_flat\"");
  check_refused(in_line_3("run.orders", "[\"stride\"]"), 3, "perhaps \"strided\"");
  check_refused(in_line_3("run.grad_sums", "[\"tre\"]"), 3, "perhaps \"tree\"");
  check_refused(in_line_3("schedule.decay", "\"cosinus\""), 3, "perhaps \"cosine\"");
  check_refused(in_line_3("muon.coefficients", "\"polar_expres\""), 3, "perhaps \"polar_express\"");
  check_refused(in_line_3("muon.family", "\"heavyball\""), 3, "perhaps \"heavy_ball\"");
  check_refused(in_line_3("muon.form", "\"scaled_factors\""), 3, "perhaps \"scaled_factor\"");
  check_refused(in_line_3("muon.scale", "\"match_rms\""), 3,
                "\"match_rms_adamw\" or \"unit_rms_norm\"");
  check_refused(in_line_3("muon.factors", "\"fp16\""), 3, "\"bf16\" or \"fp32\"");
  check_refused(in_line_3("muon.floor", "\"max\""), 3, "\"clamp\" or \"add\"");
  check_refused(in_line_3("muon.owners", "\"all\""), 3, "\"round_robin\" or \"balanced\"");
  check_refused(in_line_3("muon.coefficient", "\"cans\""), 3, "did you mean muon.coefficients?");
  check_refused(in_line_3("optimizer.norm", "\"l1\""), 3,
                "expected \"chunk1024\"");  // no name is near
}

TEST_CASE("config: refuses layouts, grids, norms, bins and instances that do not fit together") {
  const std::string exact = "[optimizer]\nnorm = \"exact\"\n";
  const std::pair<std::string, const char*> refused[] = {
      {"[run]\nlayouts = [\"contract\", \"fsdp2\"]", "with the layout \"fsdp2\""},
      {"[run]\ngrids = [\"2x1x1\", \"1x1x2\"]", "with the process grid 1x1x2"},
      {"[run]\ngrids = [\"1x1\"]", "'1x1' does not exist"},
      {"[run]\ninstances = 2\ngrids = [\"4x1x1\", \"3x1x1\"]", "does not divide the 3 data ranks"},
      {exact + "[run]\ninstances = 4\ngrids = [\"1x2x4\"]", "does not divide the 2 data ranks"},
      {"[run]\ngrad_sums = [\"tree\", \"binned\"]\nmicro_batches = 129", "with 129 leaves"},
      {"[run]\ngrad_sums = [\"binned\"]\ndtypes = [\"bf16\"]\ninstances = 2\ngrids = [\"2x1x1\", "
       "\"1x2x1\"]",
       "2 instances of the process grid 1x2x1"},
      {"[run]\ngrids = [\"1x2x1\"]", "\"fp16\" with the process grid 1x2x1"},
      {exact + "[run]\ndtypes = [\"fp16\"]\ngrids = [\"2x1x1\", \"1x1x2\"]",
       "\"fp16\" with the process grid 1x1x2"},
  };
  for (const auto& refusal : refused) {
    const std::string toml = refusal.first;
    const std::string text = judged(toml);
    CAPTURE(toml);
    CAPTURE(text);
    CHECK(has(text, refusal.second));
  }
  for (const char* norm : {"exact", "inf", "one"}) {
    const std::string set = std::string("[optimizer]\nnorm = \"") + norm + "\"\n[run]\n";
    CHECK(judged(set + "dtypes = [\"fp32\"]\nlayouts = [\"greedy\"]\ngrids = [\"1x1x8\"]").empty());
  }
  const std::string wide = "[run]\ndtypes = [\"fp32\", \"bf16\"]\n";
  CHECK(judged(wide + "grids = [\"1x8x1\"]").empty());
  CHECK(judged("[run]\ngrids = [\"8x1x1\"]").empty());
  CHECK(judged(wide + "instances = 4\ngrids = [\"2x2x1\"]").empty());
  CHECK(judged("[run]\ngrad_sums = [\"binned\"]\nmicro_batches = 128").empty());
  CHECK(
      judged(wide + "grad_sums = [\"binned\"]\nmicro_batches = 128\ngrids = [\"1x4x1\"]").empty());
  CHECK(judged(wide + "grad_sums = [\"binned\"]\ninstances = 2\ngrids = [\"2x4x1\"]").empty());
  CHECK(judged("[run]\ngrad_sums = [\"tree\", \"native\"]\nmicro_batches = 129").empty());
}

TEST_CASE("config: refuses meaningless schedules and groups") {
  const std::string falls = "[schedule]\ndecay = \"linear\"\ndecay_end = 9\n";  // lr is 2e-3
  const std::pair<std::string, const char*> refused[] = {
      {"[schedule]\ndecay = \"cosine\"", "decay_end 0 is not after"},
      {falls + "min_lr = 3e-3", "min_lr 0.003 is above its lr 0.002"},
      {falls + "[[param_group]]\nname = \"g\"\nvectors = true\nmin_lr = 3e-3",
       "0.003 of param group 'g' is above"},
      {falls + "min_lr = 1e-3\n[[param_group]]\nname = \"g\"\nvectors = true\nlr = 1e-4",
       "below its min_lr"},
      {"[schedule]\ndecay = \"table\"", "rates is empty"},
      {"[schedule]\nrates = [1e-3]", "without decay \"table\""},
      {"[run]\nsteps = 1\n[schedule]\ndecay = \"table\"\nrates = [1e-3]\nwarmup = 1",
       "put the warm-up into"},
      {"[run]\nsteps = 1\n[schedule]\ndecay = \"table\"\nrates = [1e-3]\nunit = \"samples\"",
       "put the warm-up"},
      {"[run]\nsteps = 2\n[schedule]\ndecay = \"table\"\nrates = [1e-3, -1e-3]",
       "rate 2 of schedule.rates is -0.001"},
      {"[run]\nsteps = 2\n[schedule]\ndecay = \"table\"\nrates = [nan, 1e-3]",
       "rate 1 of schedule.rates is nan"},
      {"[run]\nsteps = 1\n[schedule]\ndecay = \"table\"\nrates = [1]\n[[param_group]]\nname = "
       "\"g\"\nvectors "
       "= "
       "true\nlr = 1",
       "use lr_mult"},
      {"[[param_group]]\nname = \"g\"", "neither match nor vectors"},
      {"[[clip_group]]\nname = \"g\"", "neither match nor vectors"},
      {"[[clip_group]]\nvectors = true", "clip group 1 has no name"},
      {"[[clip_group]]\nname = \"g\"\nvectors = true\nmax_norm = -1",
       "clip group 'g': max_norm is -1"},
      {"[[param_group]]\nvectors = true", "has no name"},
      {"[[param_group]]\nname = \"g\"\nvectors = true\nlr_mult = -1", "lr_mult is -1"},
  };
  for (const auto& refusal : refused) {
    const std::string toml = refusal.first;
    const std::string text = judged(toml);
    CAPTURE(toml);
    CAPTURE(text);
    CHECK(has(text, refusal.second));
  }
  CHECK(judged(falls + "min_lr = 2e-3").empty());
  CHECK(judged(falls + "[[param_group]]\nname = \"g\"\nvectors = true\nlr = 1\nmin_lr = 0.5")
            .empty());
  CHECK(judged("[schedule]\nmin_lr = 1").empty());  // a constant rate has no floor
  CHECK(judged("[run]\nsteps = 2\n[schedule]\ndecay = \"table\"\nrates = [0, 1e-3]").empty());
  CHECK(judged(falls + "[[param_group]]\nname = \"g\"\nmatch = [\"none such\"]\nmin_lr = 1e-3")
            .empty());
}

TEST_CASE("config: refuses options that do not fit together") {
  const std::pair<const char*, const char*> refused[] = {
      {"[optimizer]\nmomentum = 0.9", "optimizer.momentum is 0.9 with the rule adamw"},
      {"[optimizer]\nrule = \"sgd_ema\"\ndampening = 0.5",
       "optimizer.dampening is 0.5 with the rule sgd_ema"},
      {"[optimizer]\nrule = \"muon\"\ndampening = 0.5",
       "optimizer.dampening is 0.5 with the rule muon"},
      {"[optimizer]\nrule = \"muon\"\nnesterov = true", "momentum above 0"},
      {"[optimizer]\nrule = \"muon\"\namsgrad = true", "does not keep the largest"},
      {"[optimizer]\nrule = \"sgd\"\nmomentum = 1.5", "optimizer.momentum is 1.5"},
      {"[optimizer]\nrule = \"sgd\"\nmomentum = nan", "optimizer.momentum is nan"},
      {"[optimizer]\nrule = \"sgd\"\nnesterov = true", "momentum above 0"},
      {"[optimizer]\nrule = \"sgd\"\nnesterov = true\nmomentum = 0.9\ndampening = 0.1",
       "dampening 0"},
      {"[optimizer]\nnesterov = true", "momentum above 0"},
      {"[optimizer]\nrule = \"sgd\"\namsgrad = true", "does not keep the largest"},
      {"[optimizer]\nrule = \"lamb\"\namsgrad = true", "does not keep the largest"},
      {"[optimizer]\nclip_value = -1", "clip_value is -1"},
      {"[optimizer]\nclip_value = 1e-60", "positive fp32 number"},
      {"[optimizer]\nclip_value = 1e60", "positive fp32 number"},
      {"[run]\nparam_rounding = \"stochastic\"\ndtypes = [\"bf16\", \"fp16\"]",
       "defined for bf16 only"},
  };
  for (const auto& refusal : refused) {
    const std::string toml = refusal.first;  // clang captures no structured binding
    const std::string text = judged(toml);
    CAPTURE(toml);
    CAPTURE(text);
    CHECK(has(text, refusal.second));
  }
  for (const char* toml :
       {"[optimizer]\nrule = \"sgd\"\nnesterov = true\nmomentum = 0.9",
        "[optimizer]\nrule = \"adam\"\namsgrad = true",
        "[optimizer]\nrule = \"sgd\"\nmomentum = 1\ndampening = 1", "[optimizer]\nrule = \"muon\"",
        "[optimizer]\nrule = \"muon\"\nmomentum = 0.95",
        "[optimizer]\nrule = \"muon\"\nmomentum = 0.95\nnesterov = true",
        "[optimizer]\nclip_value = 0",
        "[run]\nparam_rounding = \"stochastic\"\ndtypes = [\"bf16\"]"}) {
    CAPTURE(toml);
    CHECK(judged(toml).empty());
  }
  check_refused(in_line_3("optimizer.rule", "\"tiger\""), 3,
                "\"adamw\", \"adam\", \"sgd\", \"sgd_ema\", \"lion\", \"lamb\" or \"muon\"");
  check_refused(in_line_3("run.loss_reduction", "\"sum\""), 3, "\"mean\" or \"tokens\"");
}

TEST_CASE("config: settings of muon are refused out of range, and with another rule") {
  const std::string muon = "[optimizer]\nrule = \"muon\"\n";
  const std::pair<std::string, const char*> refused[] = {
      {muon + "[muon]\nsteps = 0", "muon.steps is 0"},
      {muon + "[muon]\nsteps = 65", "muon.steps is 65"},
      {muon + "[muon]\neps = 0", "muon.eps is 0"},
      {muon + "[muon]\neps = 1e-39", "muon.eps is 1e-39"},
      {muon + "[muon]\neps = inf", "muon.eps is inf"},
      {muon + "[muon]\neps = nan", "muon.eps is nan"},
      {muon + "[muon]\nscale_factor = -1", "muon.scale_factor is -1"},
      {muon + "[muon]\nscale_factor = 0", "muon.scale_factor is 0"},
      {muon + "[muon]\nscale_factor = nan", "muon.scale_factor is nan"},
      {muon + "[muon]\nrounds_first = true\nfactors = \"fp32\"", "muon.rounds_first is true"},
      {muon + "momentum = 1", "optimizer.momentum is 1 with the family ema"},
      {"[muon]\nsteps = 4", "is set with the rule adamw"},
      {"[muon]\nfamily = \"heavy_ball\"", "is set with the rule adamw"},
      {"[muon]\nadamw = []", "is set with the rule adamw"},
      {"[muon]\nowners = \"balanced\"", "is set with the rule adamw"},
      {"[[matrix_split]]\nname = \"a\"", "is set with the rule adamw"},
  };
  for (const auto& refusal : refused) {
    const std::string toml = refusal.first;
    const std::string text = judged(toml);
    CAPTURE(toml);
    CAPTURE(text);
    CHECK(has(text, refusal.second));
  }
  for (const std::string& toml : {muon + "exp_avg_dtype = \"bf16\"\n[offload]\nfractions = [0.5]",
                                  muon + "[muon]\nsteps = 64\nadamw = []",
                                  muon + "[muon]\nsteps = 1\neps = 1.2e-38\nscale_factor = 1e-9",
                                  std::string("[muon]\nsteps = 5\nadamw = [\"*embedding*\", "
                                              "\"head.*\"]")}) {
    CAPTURE(toml);
    CHECK(judged(toml).empty());
  }
}
