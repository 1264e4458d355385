#include "verification/cli/flag_scope.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cases/suites/selection.hpp"

namespace zeroproof::verification {
namespace {

/// The kind of cases that a pattern selects. A complete id determines its case, but not the
/// settings of its run.
enum Kind : unsigned {
  training = 1,
  training_id = 2,
  op = 4,
  lbfgs = 8,
  control = 16,
  covering = 32,
  resume = 64
};

constexpr unsigned runs = training | training_id | covering;

Kind kind_of(const std::string& pattern) {
  const std::string suite = suite_meant(pattern).name();
  if (suite == "op") return op;
  if (suite == "lbfgs") return lbfgs;
  if (suite == "controls") return control;
  if (suite == "resume") return resume;
  return parse_case_id(pattern) ? training_id : training;
}

const char* described(Kind kind) {
  switch (kind) {
    case training:
      return "training cases";
    case training_id:
      return "a complete case id, which already has the setting";
    case op:
      return "single operations";
    case lbfgs:
      return "runs of L-BFGS, whose ids have all settings";
    case control:
      return "controls";
    case resume:
      return "resumed runs, whose ids have all settings";
    case covering:
      return "rows of a covering array, which choose the settings";
  }
  return "";
}

struct Use {
  const char* flag;
  bool given;
  unsigned applies;
};

std::vector<Use> uses_of(const CaseFlags& f) {
  return {{"--recipe", !f.recipes.empty(), training},
          {"--impl", !f.implementations.empty(), training | op | lbfgs | covering},
          {"--mode", !f.modes.empty(), training},
          {"--world", !f.worlds.empty(), training},
          {"--stage", !f.stages.empty(), training},
          {"--dtype", !f.dtypes.empty(), training},
          {"--bucket", !f.buckets.empty(), training},
          {"--threads", !f.threads.empty(), training},
          {"--order", !f.orders.empty(), training},
          {"--layout", !f.layouts.empty(), training},
          {"--sum", !f.grad_sums.empty(), training},
          {"--windows", !f.windows.empty(), training},
          {"--transport", !f.transport.empty(), training},
          {"--grid", !f.grids.empty(), training},
          {"--instances", !f.instances.empty(), training},
          {"--persistent", !f.persistent_numel.empty(), training},
          {"--overlap", f.overlap, training},
          {"--offload", !f.offloads.empty(), training},
          {"--offload-order", !f.offload_orders.empty(), training},
          {"--offload-place", !f.offload_places.empty(), training | training_id},
          {"--offload-chunk", !f.offload_chunks.empty(), training},
          {"--offload-overlap", !f.offload_overlaps.empty(), training},
          {"--offload-grads", !f.offload_grads.empty(), training},
          {"--norm", !f.norm.empty(), training | training_id | resume},
          {"--max-norm", !f.max_norm.empty(), training | training_id | resume},
          {"--exp-avg-dtype", !f.exp_avg_dtype.empty(), training | training_id | resume},
          {"--exp-avg-sq-dtype", !f.exp_avg_sq_dtype.empty(), training | training_id | resume},
          {"--master-dtype", !f.master_dtype.empty(), training | training_id | resume},
          {"--text", !f.text.empty(), runs | lbfgs | resume},
          {"--gradients", !f.gradients.empty(), training | training_id},
          {"--steps", !f.steps.empty(), runs | resume},
          {"--micro-batches", !f.micro_batches.empty(), training | training_id | lbfgs | resume},
          {"--comm-timeout", !f.comm_timeout.empty(), runs | lbfgs | resume},
          {"--hostfile", !f.hostfile.empty(), runs},
          {"--jobs", !f.jobs.empty(), runs},
          {"--oversubscribe", f.oversubscribe, runs},
          {"--plugin", !f.plugin.empty(), runs | op},
          {"--plugin-timeout", !f.plugin_timeout.empty(), runs | op},
          {"--accept", !f.accept.empty(), op},
          {"--fault", !f.fault.empty(), runs | op | lbfgs | resume},
          {"--blind", !f.blind.empty(), runs | op | lbfgs | resume},
          {"--cover", !f.cover.empty(), covering},
          {"--cover-seed", !f.cover_seed.empty(), covering},
          {"--slice", !f.slice.empty(), covering},
          {"--config", !f.config_file.empty(), ~unsigned{covering}}};
}

/// Not every implementation has a form for operations, and L-BFGS is host code.
void check_implementations(const CaseFlags& flags, Kind kind, const std::string& pattern) {
  for (const std::string& implementation : flags.implementations) {
    const bool fits =
        kind == op ? implementation != "host-fused" : kind != lbfgs || implementation == "host";
    ZP_CHECK(
        fits, ErrorCode::config,
        "--impl " + implementation + " does not apply to '" + pattern + "'",
        kind == op ? "operations are compared one at a time, not fused" : "L-BFGS runs on the host",
        kind == op ? "use host, device or plugin" : "use host, or leave the flag out");
  }
}

}  // namespace

bool selects_training(const std::string& pattern) { return (kind_of(pattern) & runs) != 0; }

void require_applicable(const CaseFlags& flags) {
  std::vector<std::string> patterns = flags.patterns;
  if (patterns.empty()) patterns.emplace_back("");  // the main job: training cases
  for (const std::string& pattern : patterns) {
    const bool rows = !flags.cover.empty() && (kind_of(pattern) & training) != 0;
    const Kind kind = rows ? covering : kind_of(pattern);
    for (const Use& use : uses_of(flags)) {
      ZP_CHECK(!use.given || (use.applies & kind) != 0, ErrorCode::config,
               std::string(use.flag) + " does not apply to '" + pattern + "'",
               std::string("that selects ") + described(kind) + ", and the flag would do nothing",
               "leave the flag out, or the pattern");
    }
    check_implementations(flags, kind, pattern);
  }
}

}  // namespace zeroproof::verification
