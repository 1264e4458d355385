#pragma once
// Writes the trajectory of the undistributed optimizer, with which all cases of a workload, recipe
// and dtype are compared.

#include <string>
#include <vector>

#include "verification/cases/run_plan.hpp"
#include "verification/cases/run_report.hpp"
#include "verification/tools/train/dump/dump_plan.hpp"

namespace zeroproof::verification {

/// The workload of a case with its settings and its text or gradients. Errors (ErrorCode::config):
/// as Experiment.
Experiment experiment_of(const VerifyOptions& options, const CaseSpec& spec);

/// Metadata of a dump: contract version, program, workload, recipe, dtype, case, settings (TOML)
/// and the order of the parameters. case_id: a case that is compared with this trajectory, "" for
/// none.
SafeMetadata dump_metadata(const Experiment& experiment, const std::string& case_id);

/// Runs the undistributed optimizer to the last of `steps` and writes these tensors as safetensors.
/// steps: increasing, from 1 to the experiment's. tensors: of these steps, any of
/// DumpPlan::tensors(steps), in its order. start: the state before the first step; null for the
/// experiment's own.
/// Returns the trace to that step, with its hash. Errors: io as SafetensorsWriter; nonfinite if the
/// settings end the run at a gradient that is not finite; nothing is written then.
TrainingTrace write_dump(const Experiment& experiment, const DumpPlan& plan,
                         const std::vector<DumpTensor>& tensors, const std::string& file,
                         const std::string& case_id, const FullState* start = nullptr);

}  // namespace zeroproof::verification
