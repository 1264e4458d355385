#include "verification/run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

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
  bool edited = false;
  for (std::int64_t step = 1; step <= steps && !edited; ++step) {
    if (truth) truth->step(step);
    tick(step);
    for (const auto& run : runs) {
      run->run_step(step, leaves, truth ? &truth->optimizer() : nullptr);
      edited = !leaves.unchanged();
      if (edited) {
        // Nothing that comes after could be trusted: the leaves are everybody's input.
        const std::string guilty = run->spec().id();
        for (const auto& other : runs)
          other->end(Status::error, "ended early because " + guilty + " edited a leaf");
        run->end(Status::fail, "edited a leaf gradient in step " + std::to_string(step) +
                                   " (inputs belong to the caller); copy before changing");
        break;
      }
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

void run_groups(const VerifyOptions& options, std::vector<CaseSpec> cases, const workload::Text& text,
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
    const Experiment experiment(first.workload, config, first.dtype, text);
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

/// The text all cases train on: long enough for every workload among them.
workload::Text common_text(const VerifyOptions& options, const std::vector<CaseSpec>& cases) {
  RunConfig longest = config_of(options, cases.front().workload);
  for (const CaseSpec& spec : cases) {
    const RunConfig config = config_of(options, spec.workload);
    if (config.model.context > longest.model.context) longest = config;
  }
  return load_text(longest);
}

}  // namespace

RunReport run_cases(const VerifyOptions& options, const std::vector<CaseSpec>& cases,
                    const ProgressSink& progress) {
  const auto begin = std::chrono::steady_clock::now();
  RunReport report;
  report.capabilities = capabilities();
  // Read once: the project's own text may change on disk while the run goes on.
  const workload::Text text = common_text(options, cases);
  report.input = {text.kind, text.path, static_cast<std::int64_t>(text.bytes.size())};
  std::vector<CaseSpec> local;
  std::vector<CaseSpec> mpi;
  for (const CaseSpec& spec : cases) (spec.world.kind == WorldSpec::Kind::mpi ? mpi : local).push_back(spec);

  if (inside_mpi_job()) {
    ZP_CHECK(local.empty(), ErrorCode::config,
             "a case of world " + (local.empty() ? "" : local.front().world.id()) +
                 " was asked for inside an MPI job",
             "every process would run it again", "add --world mpi:" + std::to_string(mpi_job_size()));
    run_groups(options, mpi, text, make_mpi_world_factory(options), false, report, progress);
  } else {
    const double share = mpi.empty() ? 1.0 : 0.7;
    const auto make_world = [&](const CaseSpec& spec) {
      return make_local_world(spec.world, config_of(options, spec.workload).comm_timeout_s);
    };
    run_groups(options, local, text, make_world, true, report,
               [&](double fraction, const std::string& what) { progress(fraction * share, what); });
    if (!mpi.empty()) progress(share, "mpi cases");
    for (CaseResult& result : run_mpi_jobs(options, mpi, text)) {
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
