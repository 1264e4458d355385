#include "verification/run.hpp"

#include <algorithm>
#include <chrono>

#include "common/base/error.hpp"
#include "verification/case_run.hpp"
#include "verification/mpi_job.hpp"
#include "verification/recorded.hpp"
#include "verification/truth.hpp"

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

using MakeWorld = std::function<std::unique_ptr<World>(const CaseSpec&)>;

/// All cases of one workload, recipe and dtype, interleaved step by step so that they share each step's leaves.
void run_group(const VerifyOptions& options, const std::vector<CaseSpec>& cases, const Experiment& experiment,
               const MakeWorld& make_world, bool with_truth, RunReport& report,
               const ProgressSink& progress) {
  LeafCache leaves(experiment);
  std::unique_ptr<Truth> truth;
  if (with_truth) truth = std::make_unique<Truth>(experiment, leaves);
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
  for (const auto& run : runs) report.cases.push_back(run->result(hash, replay_line(options, run->spec())));
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
void compare_with_traces(CaseResult& result, const std::vector<TrainingTrace>& traces) {
  for (const TrainingTrace& trace : traces) {
    if (!traces_case(trace, result.spec)) continue;
    if (!result.candidate_hash || !trace.hash || *result.candidate_hash == *trace.hash) continue;
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

}  // namespace

RunReport run_cases(const VerifyOptions& options, const std::vector<CaseSpec>& cases,
                    const ProgressSink& progress) {
  const auto begin = std::chrono::steady_clock::now();
  RunReport report;
  report.capabilities = capabilities();
  const Texts texts = read_texts(options, cases);
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
    if (!mpi.empty()) progress(share, "mpi cases");
    for (CaseResult& result : run_mpi_jobs(options, mpi, texts)) {
      result.replay =
          replay_line(options, result.spec);  // the job's own line names the file it got its text from
      compare_with_traces(result, report.traces);
      report.cases.push_back(std::move(result));
    }
  }
  progress(1.0, "done");
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace zeroproof::verification
