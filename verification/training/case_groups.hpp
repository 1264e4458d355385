#pragma once
// Cases that share a workload, recipe and dtype run the steps together, on all cores.

#include <functional>
#include <memory>
#include <vector>

#include "common/base/thread_pool.hpp"
#include "verification/cases/run_plan.hpp"
#include "verification/cases/run_report.hpp"
#include "verification/cases/suite.hpp"
#include "verification/training/gradients/grad_cache.hpp"
#include "verification/training/mpi_job.hpp"
#include "verification/training/ranks/world.hpp"

namespace zeroproof::verification {

/// True if the trace is that of the undistributed run to which a case is compared.
bool traces_case(const TrainingTrace& trace, const CaseSpec& spec);

/// For a case in which clipping never bound: adds the max_norm with which it would. The run is
/// equal up to the step with the largest norm.
void say_norm(Result& result, const TrainingTrace& trace);

Experiment experiment_of(const VerifyOptions& options, const CaseSpec& spec, const Texts& texts);

/// How groups of cases are run.
struct GroupSettings {
  const VerifyOptions& options;
  const Texts& texts;
  std::function<std::unique_ptr<World>(const CaseSpec&)> make_world;
  bool with_truth = true;    ///< run the undistributed optimizer beside the cases
  bool first_ahead = false;  ///< the first case runs before all others, for an early verdict
  KeptGrads kept;
  ThreadPool&
      thread_pool;  ///< has one thread if ranks are processes: they must run the cases in one order
};

/// Runs the cases, and the undistributed optimizer alone for those of `truths` without a case.
/// Appends traces and results: groups in the order of their first cases, the cases of each in their
/// order. An error in one case is its result. Errors: those of the undistributed optimizer, when
/// all groups are done.
void run_groups(const GroupSettings& settings, const std::vector<CaseSpec>& cases,
                const std::vector<CaseSpec>& truths, RunReport& report,
                const ProgressSink& progress);

}  // namespace zeroproof::verification
