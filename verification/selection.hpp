#pragma once
// What a command line selects: training cases, operations, L-BFGS, controls.

#include "verification/controls/control.hpp"
#include "verification/lbfgs/lbfgs_case.hpp"
#include "verification/ops/op_case.hpp"
#include "verification/run.hpp"

namespace zeroproof::verification {

struct Selection {
  std::vector<CaseSpec> steps;
  std::vector<OpCaseSpec> ops;
  std::vector<LbfgsCaseSpec> lbfgs;
  std::vector<const Control*> controls;

  std::size_t size() const { return steps.size() + ops.size() + lbfgs.size() + controls.size(); }
  std::vector<std::string> ids() const;
};

/// Patterns that begin with "op/" (or name an operation) select operations, with "lbfgs/" L-BFGS, with "controls/"
/// controls, all others training cases; without any pattern, the cases of the main job. Each case once.
Selection select_cases(const VerifyOptions& options);

/// Runs everything that was selected; the report holds it all. Errors: ErrorCode::config for settings or a text that
/// cannot be used, before anything runs.
RunReport run_selection(const VerifyOptions& options, const Selection& selection,
                        const ProgressSink& progress);

}  // namespace zeroproof::verification
