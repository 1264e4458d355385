#include "verification/training/training_run.hpp"

#include <algorithm>
#include <cmath>

#include "common/base/error.hpp"
#include "common/step/require_config.hpp"
#include "verification/case/case_layout.hpp"
#include "verification/case/recorded.hpp"
#include "verification/judge/dense_baseline.hpp"
#include "verification/judge/verdict.hpp"
#include "verification/training/case_run.hpp"
#include "verification/training/mpi_job.hpp"
#include "verification/world/mpi_environment.hpp"

namespace zeroproof::verification {
namespace {

Experiment experiment_of(const VerifyOptions& options, const CaseSpec& spec, const Texts& texts) {
  return Experiment(spec.workload, config_of(options, spec), spec.dtype, texts.at(spec.workload),
                    spec.recipe);
}

/// Native sums are judged by bounds and then replaced by the tree's; bins are a contract of their own.
GradSum hashed_sum(const CaseSpec& spec) {
  return spec.place.grad_sum == GradSum::binned ? GradSum::binned : GradSum::tree;
}

bool adds_alike(const CaseSpec& a, const CaseSpec& b) { return hashed_sum(a) == hashed_sum(b); }

bool traces_case(const TrainingTrace& trace, const CaseSpec& spec) {
  return trace.workload == spec.workload && trace.recipe == spec.recipe && trace.dtype == spec.dtype &&
         trace.grad_sum == hashed_sum(spec);
}

/// Where clipping never bound: says which max_norm would have made it bind. Up to the step with the largest norm such a
/// run is the same.
void say_norm(Result& result, const TrainingTrace& trace) {
  if (result.status != Status::mistrusted || result.reason != clipping_never_bound) return;
  double largest = 0;
  for (const TrainingStep& step : trace.steps) {
    if (std::isfinite(step.grad_norm)) largest = std::max(largest, step.grad_norm);
  }
  result.reason += ", the largest norm was " + shown(largest) + "; use a --max-norm below that";
}

using MakeWorld = std::function<std::unique_ptr<World>(const CaseSpec&)>;

/// All cases of one workload, recipe and dtype, interleaved step by step so that they share each step's leaves.
void run_group(const VerifyOptions& options, const std::vector<CaseSpec>& cases, const Experiment& experiment,
               const MakeWorld& make_world, bool with_truth, RunReport& report,
               const ProgressSink& progress) {
  GradCache leaves(experiment);
  std::unique_ptr<DenseBaseline> truth;
  if (with_truth) truth = std::make_unique<DenseBaseline>(experiment, leaves);
  std::vector<std::unique_ptr<CaseRun>> runs;
  for (const CaseSpec& spec : cases) {
    runs.push_back(std::make_unique<CaseRun>(experiment, spec, make_world(spec), options.fault));
  }
  const std::int64_t steps = experiment.config().steps;
  const double ticks = static_cast<double>(steps) * (1.0 + static_cast<double>(runs.size()));
  double done = 0;
  const auto tick = [&](std::int64_t step) {
    progress(++done / ticks, experiment.workload() + " " + experiment.recipe() + " " +
                                 std::string(name(experiment.param_dtype())) + " step " +
                                 std::to_string(step) + "/" + std::to_string(steps));
  };
  for (std::int64_t step = 1; step <= steps; ++step) {
    if (truth) truth->step(step);
    tick(step);
    for (const auto& run : runs) {
      run->run_step(step, leaves, truth ? &truth->optimizer() : nullptr);
      tick(step);
    }
    leaves.forget();
  }
  std::optional<Digest> hash;
  if (truth) {
    report.traces.push_back(truth->trace());
    hash = report.traces.back().hash;
  }
  for (const auto& run : runs) {
    report.results.push_back(run->result(hash, replay_line(options, run->spec().id())));
    if (truth) say_norm(report.results.back(), report.traces.back());
  }
}

void run_groups(const VerifyOptions& options, std::vector<CaseSpec> cases, const Texts& texts,
                const MakeWorld& make_world, bool with_truth, RunReport& report,
                const ProgressSink& progress) {
  const std::size_t total = cases.size();
  std::size_t before = 0;
  while (!cases.empty()) {
    const CaseSpec first = cases.front();
    std::vector<CaseSpec> group;
    std::vector<CaseSpec> rest;
    for (const CaseSpec& spec : cases) {
      const bool same = spec.workload == first.workload && spec.recipe == first.recipe &&
                        spec.dtype == first.dtype && adds_alike(spec, first);
      (same ? group : rest).push_back(spec);
    }
    const Experiment experiment = experiment_of(options, first, texts);
    run_group(options, group, experiment, make_world, with_truth, report,
              [&](double fraction, const std::string& what) {
                progress((static_cast<double>(before) + fraction * static_cast<double>(group.size())) /
                             static_cast<double>(total),
                         what);
              });
    before += group.size();
    cases = std::move(rest);
  }
}

/// The MPI result must be the trajectory of the undistributed run of this process too.
void compare_with_traces(Result& result, const std::vector<TrainingTrace>& traces) {
  const std::optional<Digest>& hash = result.training->candidate_hash;
  for (const TrainingTrace& trace : traces) {
    if (!traces_case(trace, training_spec(result))) continue;
    say_norm(result, trace);
    if (!hash || !trace.hash || *hash == *trace.hash) continue;
    if (result.status != Status::pass && result.status != Status::mistrusted) continue;
    result.status = Status::fail;
    result.reason = "the trajectory is not that of the undistributed optimizer";
  }
}

/// The texts of all workloads, read once: the project's own may change on disk while the run goes on.
Texts read_texts(const VerifyOptions& options, const std::vector<CaseSpec>& cases) {
  Texts texts;
  for (const CaseSpec& spec : cases) {
    if (texts.count(spec.workload) > 0) continue;
    const RunConfig config = config_of(options, spec.workload);
    texts[spec.workload] = options.gradients.empty() ? load_text(config) : recorded_text(options.gradients);
  }
  return texts;
}

/// Runs the undistributed optimizer for MPI cases that no local case shares it with.
void add_missing_truths(const VerifyOptions& options, const std::vector<CaseSpec>& mpi, const Texts& texts,
                        RunReport& report, const ProgressSink& progress) {
  for (const CaseSpec& spec : mpi) {
    const bool there = std::any_of(report.traces.begin(), report.traces.end(),
                                   [&](const TrainingTrace& trace) { return traces_case(trace, spec); });
    if (there) continue;
    const Experiment experiment = experiment_of(options, spec, texts);
    run_group(options, {}, experiment, {}, true, report, progress);
  }
}

/// Refuses, before anything is run, a model that its TP ranks cannot hold as a case wants it.
void require_layouts(const VerifyOptions& options, const std::vector<CaseSpec>& cases, const Texts& texts) {
  for (const CaseSpec& spec : cases) {
    if (spec.place.grid_of(spec.world.size).tp == 1) continue;
    const CaseLayout layout(experiment_of(options, spec, texts), spec, spec.world.size);
  }
}

}  // namespace

void run_training(const VerifyOptions& options, const std::vector<CaseSpec>& cases, RunReport& report,
                  const ProgressSink& progress) {
  const Texts texts = read_texts(options, cases);
  require_layouts(options, cases, texts);
  const workload::Text& text = texts.at(cases.front().workload);
  report.input = {text.kind, text.path, static_cast<std::int64_t>(text.bytes.size())};
  if (!options.gradients.empty())
    report.input.bytes = workload::open_recorded(options.gradients)->file_bytes();
  std::vector<CaseSpec> local;
  std::vector<CaseSpec> mpi;
  for (const CaseSpec& spec : cases) (spec.world.kind == WorldSpec::Kind::mpi ? mpi : local).push_back(spec);

  if (inside_mpi_job()) {
    ZP_CHECK(local.empty(), ErrorCode::config,
             "a case of world " + (local.empty() ? "" : local.front().world.id()) +
                 " was asked for inside an MPI job",
             "every process would run it again", "add --world mpi:" + std::to_string(mpi_job_size()));
    // A job this program started is compared with the undistributed optimizer by the process that started it.
    run_groups(options, mpi, texts, make_mpi_world_factory(options), !started_by_zeroproof(), report,
               progress);
  } else {
    const double share = mpi.empty() ? 1.0 : 0.7;
    const auto make_world = [&](const CaseSpec& spec) {
      return make_local_world(spec.world, config_of(options, spec.workload).comm_timeout_s);
    };
    run_groups(options, local, texts, make_world, true, report,
               [&](double fraction, const std::string& what) { progress(fraction * share, what); });
    add_missing_truths(options, mpi, texts, report, [](double, const std::string&) {});
    const auto waiting = [&] { progress(share, "cases over MPI processes"); };
    for (Result& result : run_mpi_jobs(options, mpi, texts, waiting)) {
      result.replay = replay_line(options, result.id);  // the job's own names the file it got its text from
      compare_with_traces(result, report.traces);
      report.results.push_back(std::move(result));
    }
  }
}

}  // namespace zeroproof::verification
