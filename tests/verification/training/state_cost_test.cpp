// The cost of state in fewer bits (R25): losses, and the distance from a training in fp64, next to
// those of fp32 state. Prints the table of papers/low_precision.md.

#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>

#include <doctest.h>

#include "common/base/float_formats.hpp"
#include "tests/support/paths.hpp"
#include "tests/verification/training/training_support.hpp"
#include "verification/cli/program/file_text.hpp"
#include "verification/compare/judge/dense_baseline.hpp"

namespace state_cost_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;
using tests::TinyTraining;

constexpr std::int64_t steps = 60;
constexpr std::uint64_t seeds[] = {1, 2, 3};

struct Form {
  std::string_view row;  ///< of the note's table
  StateFormats formats;
  ParamRounding rounding = ParamRounding::nearest;

  std::string name() const { return std::string(row.substr(2, row.find(" |") - 2)); }
};

constexpr Form forms[] = {
    {"| fp32 | 2.925 to 3.192 | 9.6e-05 to 0.00031 | 0% to 0% |", {}},
    {"| exp_avg bf16, exp_avg_sq bf16 | 2.925 to 3.156 | 0.0041 to 0.025 | 0% to 0% |",
     {StateFormat::bf16, StateFormat::bf16}},
    {"| exp_avg fp16, exp_avg_sq fp16 | 2.925 to 3.175 | 0.00083 to 0.0031 | 0% to 0% |",
     {StateFormat::fp16, StateFormat::fp16}},
    {"| exp_avg e4m3, exp_avg_sq fp32 | 2.925 to 3.300 | 0.06 to 0.061 | 0% to 0% |",
     {StateFormat::e4m3, StateFormat::fp32}},
    {"| exp_avg e4m3, exp_avg_sq fp16 | 2.926 to 3.285 | 0.059 to 0.06 | 0% to 0% |",
     {StateFormat::e4m3, StateFormat::fp16}},
    {"| exp_avg e4m3, exp_avg_sq e4m3 | 2.926 to 3.164 | 0.6 to 1.8 | 0.0082% to 0.033% |",
     {StateFormat::e4m3, StateFormat::e4m3}},
    {"| master bf16, to nearest | 2.925 to 3.264 | 0.026 to 0.038 | 0% to 0% |",
     {StateFormat::fp32, StateFormat::fp32, MasterFormat::bf16}},
    {"| master bf16, stochastic | 2.926 to 3.162 | 0.036 to 0.058 | 0% to 0% |",
     {StateFormat::fp32, StateFormat::fp32, MasterFormat::bf16},
     ParamRounding::stochastic},
};

RunConfig config_of(std::uint64_t seed, const Form& form) {
  RunConfig config = workload_defaults("byte_gpt_tiny");
  config.seed = seed;
  config.steps = steps;
  config.initial_state = InitialState::zero;
  config.overflow_step = 0;
  config.optimizer.max_norm.reset();
  config.state_formats = form.formats;
  config.param_rounding = form.rounding;
  return config;
}

/// AdamW with everything but the micro-batch gradients in fp64, on a model that reads masters
/// rounded to bf16, as all the others do.
std::vector<double> masters_in_fp64(const Experiment& experiment, GradCache& leaves) {
  const RunConfig& config = experiment.config();
  const OptimizerHyper& h = config.optimizer;
  const FlatLayout& layout = experiment.layout();
  const FullState initial = experiment.initial_state();
  const auto numel = static_cast<std::size_t>(layout.padded_numel());
  std::vector<double> master(initial.master.begin(), initial.master.end()), m(numel), v(numel);
  std::vector<bf16> param(numel);
  for (std::int64_t t = 1; t <= steps; ++t) {
    for (std::size_t i = 0; i < numel; ++i) param[i] = to_bf16(static_cast<float>(master[i]));
    const TensorView view{param.data(), DType::bf16, layout.padded_numel()};
    const Digest digest = leaves.parameters_digest(view);
    std::vector<double> grad(numel);
    for (std::int64_t j = 0; j < config.micro_batches; ++j) {
      const TensorView leaf = leaves.micro_batch_grad(t, j, view, digest, 0).view();
      for (std::size_t i = 0; i < numel; ++i)
        grad[i] += load_element(leaf, static_cast<std::int64_t>(i));
    }
    const double correction1 = 1 - std::pow(double{h.beta1}, static_cast<double>(t));
    const double correction2 = 1 - std::pow(double{h.beta2}, static_cast<double>(t));
    for (std::size_t i = 0; i < numel; ++i) {
      const double g = grad[i] / static_cast<double>(config.micro_batches);
      m[i] = h.beta1 * m[i] + (1 - double{h.beta1}) * g;
      v[i] = h.beta2 * v[i] + (1 - double{h.beta2}) * g * g;
      const double step = m[i] / correction1 / (std::sqrt(v[i] / correction2) + h.eps);
      master[i] -= h.lr * (step + h.weight_decay * master[i]);
    }
  }
  return master;
}

struct Cost {
  double loss = 0;      ///< of the last step
  double distance = 0;  ///< of masters from those in fp64, relative to their total change
  double no_root = 0;  ///< share of elements whose stored second moment is 0 and whose first is not
};

Cost cost_of(const DenseBaseline& run, const std::vector<double>& truth, const FullState& first) {
  Cost cost;
  cost.loss = run.trace().steps.back().loss;
  const std::vector<float> master = run.optimizer().values(BufferId::master);
  const std::vector<float> m = run.optimizer().values(BufferId::exp_avg);
  const std::vector<float> v = run.optimizer().values(BufferId::exp_avg_sq);
  double off = 0, way = 0;
  std::int64_t no_root = 0;
  const FlatLayout& layout = run.optimizer().layout();
  for (const Piece& piece : layout.pieces({{0, layout.padded_numel()}})) {
    for (std::int64_t i = piece.global_begin; i < piece.global_begin + piece.numel; ++i) {
      const auto at = static_cast<std::size_t>(i);
      off += std::pow(master[at] - truth[at], 2);
      way += std::pow(truth[at] - double{first.master[at]}, 2);
      no_root += v[at] == 0 && m[at] != 0 ? 1 : 0;
    }
  }
  cost.distance = std::sqrt(off / way);
  cost.no_root = static_cast<double>(no_root) / static_cast<double>(layout.numel());
  return cost;
}

std::string row_of(const Form& form, const Cost& least, const Cost& most) {
  char row[200];
  std::snprintf(row, sizeof row, "| %s | %.3f to %.3f | %.2g to %.2g | %.2g%% to %.2g%% |",
                form.name().c_str(), least.loss, most.loss, least.distance, most.distance,
                100 * least.no_root, 100 * most.no_root);
  return row;
}

}  // namespace

TEST_CASE("nightly: state cost: losses with state in fewer bits match the note") {
  const std::string note = file_text(tests::source_folder() + "/papers/low_precision.md").value();
  std::vector<std::vector<double>> truths;
  for (const Form& form : forms) {
    Cost least{1e30, 1e30, 1e30}, most;
    for (std::size_t s = 0; s < std::size(seeds); ++s) {
      const RunConfig config = config_of(seeds[s], form);
      const Experiment experiment("byte_gpt_tiny", config, DType::bf16, load_text(config), "adamw");
      GradCache leaves(experiment);
      if (truths.size() <= s) truths.push_back(masters_in_fp64(experiment, leaves));
      DenseBaseline run(experiment, leaves);
      for (std::int64_t step = 1; step <= steps; ++step) run.step(step);
      const Cost cost = cost_of(run, truths[s], experiment.initial_state());
      for (double Cost::*figure : {&Cost::loss, &Cost::distance, &Cost::no_root}) {
        const double value =
            std::isnan(cost.*figure) ? std::numeric_limits<double>::infinity() : cost.*figure;
        least.*figure = std::min(least.*figure, value);
        most.*figure = std::max(most.*figure, value);
      }
    }
    const std::string row = row_of(form, least, most);
    CHECK(row == form.row);
    CHECK_MESSAGE(note.find(row) != std::string::npos, row);
  }
}

}  // namespace state_cost_test
