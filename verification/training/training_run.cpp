#include "verification/training/training_run.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "common/base/error.hpp"
#include "common/base/parallel_for.hpp"
#include "verification/cases/case_layout.hpp"
#include "verification/cases/recorded.hpp"
#include "verification/training/available_memory.hpp"
#include "verification/training/case_groups.hpp"
#include "verification/training/mpi_job.hpp"
#include "verification/training/ranks/mpi_environment.hpp"

namespace zeroproof::verification {
namespace {

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
    texts[spec.workload] =
        options.gradients.empty() ? load_text(config) : recorded_text(options.gradients);
  }
  return texts;
}

/// Memory for reused gradients: a quarter of the available memory, at most 4 GiB. The main job
/// needs 1.9 GB.
std::uint64_t memory_for_leaves() {
  return std::min<std::uint64_t>(available_memory() / 4, std::uint64_t{4} << 30);
}

/// Sorts results by the order of their cases.
std::vector<Result> in_order(std::vector<Result> results, const std::vector<CaseSpec>& cases) {
  std::map<std::string, std::size_t> place;
  for (const CaseSpec& spec : cases) place.emplace(spec.id(), place.size());
  std::ranges::stable_sort(results, {}, [&](const Result& result) { return place[result.id]; });
  return results;
}

/// Runs the cases of this process, then those of the jobs it starts.
void run_here(const VerifyOptions& options, const Texts& texts, const std::vector<CaseSpec>& local,
              const std::vector<CaseSpec>& mpi, RunReport& report, const ProgressSink& progress) {
  ThreadPool thread_pool(options.jobs > 0 ? options.jobs : available_cores());
  const double share = mpi.empty() ? 1.0 : 0.7;
  const bool ahead = local.size() > 1;
  const bool handed_over = !mpi.empty() && mpi_jobs_run_here(options);
  GradStore store(ahead || handed_over ? memory_for_leaves() : 0);
  const auto make_world = [&](const CaseSpec& spec) {
    return make_local_world(spec.world, config_of(options, spec.workload).comm_timeout_s);
  };
  run_groups({options, texts, make_world, true, ahead, {&store, nullptr}, thread_pool}, local, mpi,
             report,
             [&](double fraction, const std::string& what) { progress(fraction * share, what); });
  const auto waiting = [&] { progress(share, "cases over MPI processes"); };
  const auto finished = [&](std::vector<Result>& results) {
    for (Result& result : results) {
      result.replay =
          replay_line(options, result.id);  // the job's own line has the path of its input file
      compare_with_traces(result, report.traces);
    }
    if (options.on_verdicts) options.on_verdicts(results);
    if (options.on_results) options.on_results(results);
  };
  std::vector<Result> found =
      run_mpi_jobs(options, mpi, texts, handed_over ? &store : nullptr, {waiting, finished});
  for (Result& result : in_order(std::move(found), mpi))
    report.results.push_back(std::move(result));
}

}  // namespace

void check_training(const VerifyOptions& options, const std::vector<CaseSpec>& cases) {
  const Texts texts = read_texts(options, cases);
  std::set<std::tuple<std::string, std::string, DType>> checked;
  for (const CaseSpec& spec : cases) {
    const bool splits = spec.place.grid_of(spec.world.size).tp > 1;
    if (!checked.emplace(spec.workload, spec.recipe, spec.dtype).second && !splits) continue;
    const Experiment experiment = experiment_of(options, spec, texts);
    if (splits) const CaseLayout layout(experiment, spec, spec.world.size);
  }
}

void run_training(const VerifyOptions& options, const std::vector<CaseSpec>& cases,
                  RunReport& report, const ProgressSink& progress) {
  const Texts texts = read_texts(options, cases);
  const workload::Text& text = texts.at(cases.front().workload);
  report.input = {text.kind, text.path, static_cast<std::int64_t>(text.bytes.size())};
  if (!options.gradients.empty())
    report.input.bytes = workload::open_recorded(options.gradients)->file_bytes();
  std::vector<CaseSpec> local;
  std::vector<CaseSpec> mpi;
  for (const CaseSpec& spec : cases) (spec.world.has_processes() ? mpi : local).push_back(spec);

  if (inside_mpi_job()) {
    ZP_CHECK(local.empty(), ErrorCode::config,
             "a case of world " + (local.empty() ? "" : local.front().world.id()) +
                 " cannot run inside an MPI job",
             "every process would run it again",
             "add --world mpi:" + std::to_string(mpi_job_size()));
    ThreadPool thread_pool(1);
    const std::unique_ptr<GradFile> leaves = leaves_handed_over();
    // A job started by this program is compared with the undistributed optimizer by its parent
    // process.
    run_groups({options,
                texts,
                make_mpi_world_factory(options),
                !started_by_zeroproof(),
                false,
                {nullptr, leaves.get()},
                thread_pool},
               mpi, {}, report, progress);
  } else {
    run_here(options, texts, local, mpi, report, progress);
  }
}

}  // namespace zeroproof::verification
