#include "verification/run.hpp"

#include <algorithm>
#include <chrono>

#include "common/base/error.hpp"
#include "common/base/parallel_for.hpp"
#include "verification/case_run.hpp"
#include "verification/mpi_job.hpp"

namespace zeroproof::verification {
namespace {

/// The undistributed optimizer on its way through the steps, with its trace.
class Truth {
 public:
  Truth(const Experiment& experiment, LeafCache& leaves)
      : experiment_(experiment),
        leaves_(leaves),
        optimizer_({&experiment.layout(), experiment.param_dtype(), experiment.config().micro_batches,
                    experiment.config().optimizer, experiment.scaler()},
                   experiment.initial_state()) {
    trace_.workload = experiment.workload();
    trace_.dtype = experiment.param_dtype();
    trace_.parameters = experiment.layout().numel();
    trace_.micro_batches = experiment.config().micro_batches;
    trace_.context = experiment.config().model.context;
  }

  void step(std::int64_t number) {
    const std::int64_t count = experiment_.config().micro_batches;
    const int scale = optimizer_.loss_scaler().log2_scale;
    const Digest digest = LeafCache::parameters_digest(optimizer_.param());
    std::vector<TensorView> views(static_cast<std::size_t>(count));
    std::vector<double> losses(static_cast<std::size_t>(count));
    parallel_for(available_cores(), count, [&](std::int64_t j) {
      const LeafCache::Leaf& leaf = leaves_.leaf(number, j, optimizer_.param(), digest, scale);
      views[static_cast<std::size_t>(j)] = leaf.values.view();
      losses[static_cast<std::size_t>(j)] = leaf.loss;
    });
    optimizer_.step(views);
    record(number, scale, losses);
  }

  const reference::DenseOptimizer& optimizer() const { return optimizer_; }
  TrainingTrace trace() const {
    TrainingTrace trace = trace_;
    trace.hash = hash_.digest();
    return trace;
  }

 private:
  void record(std::int64_t number, int scale, const std::vector<double>& losses) {
    const reference::DenseStep& last = optimizer_.last_step();
    TrainingStep step;
    for (const double loss : losses) step.loss += loss / static_cast<double>(losses.size());
    step.grad_norm = last.grad_norm;
    step.clip_coef = last.clip_coef;
    step.log2_loss_scale = scale;
    step.skipped = last.found_inf;
    trace_.steps.push_back(step);
    const auto view = [](const std::vector<float>& values) {
      return TensorView{const_cast<float*>(values.data()), DType::fp32,
                        static_cast<std::int64_t>(values.size())};
    };
    hash_.add_step({number, last.scalars, scale, last.found_inf, last.grad_norm, last.clip_coef},
                   experiment_.layout(),
                   {view(last.grad_sum), view(optimizer_.master()), view(optimizer_.exp_avg()),
                    view(optimizer_.exp_avg_sq()), optimizer_.param()});
  }

  const Experiment& experiment_;
  LeafCache& leaves_;
  reference::DenseOptimizer optimizer_;
  TrajectoryHash hash_;
  TrainingTrace trace_;
};

using MakeWorld = std::function<std::unique_ptr<World>(const CaseSpec&)>;

/// All cases of one workload and dtype, interleaved step by step so that they share each step's leaves.
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
    progress(++done / ticks, experiment.workload() + " " + std::string(name(experiment.param_dtype())) +
                                 " step " + std::to_string(step) + "/" + std::to_string(steps));
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
      (spec.workload == first.workload && spec.dtype == first.dtype ? group : rest).push_back(spec);
    }
    const RunConfig config = config_of(options, first.workload);
    const Experiment experiment(first.workload, config, first.dtype, texts.at(first.workload));
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
    if (trace.workload != result.spec.workload || trace.dtype != result.spec.dtype) continue;
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
    if (texts.count(spec.workload) == 0) texts[spec.workload] = load_text(config_of(options, spec.workload));
  }
  return texts;
}

/// Runs the undistributed optimizer for MPI cases that no local case shares it with.
void add_missing_truths(const VerifyOptions& options, const std::vector<CaseSpec>& mpi, const Texts& texts,
                        RunReport& report, const ProgressSink& progress) {
  for (const CaseSpec& spec : mpi) {
    const bool there =
        std::any_of(report.traces.begin(), report.traces.end(), [&](const TrainingTrace& trace) {
          return trace.workload == spec.workload && trace.dtype == spec.dtype;
        });
    if (there) continue;
    const Experiment experiment(spec.workload, config_of(options, spec.workload), spec.dtype,
                                texts.at(spec.workload));
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
