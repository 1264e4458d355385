#pragma once
// Short trainings of byte_gpt_tiny, ranks as threads of the test.

#include <string>

#include "cuda/distributed_optimizer.hpp"
#include "reference/distributed_optimizer.hpp"
#include "verification/cases/recipes.hpp"
#include "verification/compare/judge/training.hpp"
#include "verification/training/case_run.hpp"

namespace zeroproof::tests {

/// byte_gpt_tiny under a recipe, with its micro-batch gradients.
struct TinyTraining {
  explicit TinyTraining(
      DType dtype, const std::string& recipe = "adamw",
      void (*change)(RunConfig&) = [](RunConfig&) {})
      : config(changed(recipe, change)),
        experiment("byte_gpt_tiny", config, dtype, verification::load_text(config), recipe),
        leaves(experiment),
        first(experiment.initial_state()) {}

  static RunConfig changed(const std::string& recipe, void (*change)(RunConfig&)) {
    RunConfig config =
        verification::under_recipe(verification::workload_defaults("byte_gpt_tiny"), recipe);
    change(config);
    return config;
  }

  verification::CaseSpec spec(int world, int stage, verification::ParallelConfig place = {}) const {
    verification::CaseSpec spec;
    spec.workload = "byte_gpt_tiny";
    spec.stage = stage;
    spec.world = {verification::WorldSpec::Kind::threads, world};
    spec.dtype = experiment.param_dtype();
    spec.bucket_numel = 4096;
    spec.omp_threads = 1;
    spec.place = place;
    return spec;
  }

  RunConfig config;
  verification::Experiment experiment;
  verification::GradCache leaves;
  verification::Snapshot first;
};

inline verification::RankComparison::MakeOptimizer host_optimizer() {
  return verification::candidate_factory(verification::Implementation::host);
}
inline verification::RankComparison::MakeOptimizer fused_optimizer() {
  return verification::candidate_factory(verification::Implementation::host_fused);
}
inline verification::RankComparison::MakeOptimizer reference_optimizer() {
  return [](const OptimizerSetup& setup) { return reference::make_distributed_optimizer(setup); };
}

}  // namespace zeroproof::tests
