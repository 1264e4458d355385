#include "verification/training/case_groups.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>

#include "common/base/error.hpp"
#include "common/base/shown.hpp"
#include "verification/compare/judge/dense_baseline.hpp"
#include "verification/compare/judge/verdict.hpp"
#include "verification/training/available_memory.hpp"
#include "verification/training/case_run.hpp"

namespace zeroproof::verification {
namespace {

/// Native sums are checked against bounds and then replaced by the tree's; binned sums have a
/// separate contract.
GradSum hashed_sum(const CaseSpec& spec) {
  return spec.place.grad_sum == GradSum::binned ? GradSum::binned : GradSum::tree;
}

bool share_truth(const CaseSpec& a, const CaseSpec& b) {
  return a.workload == b.workload && a.recipe == b.recipe && a.dtype == b.dtype &&
         hashed_sum(a) == hashed_sum(b);
}

struct Group {
  CaseSpec first;
  std::vector<CaseSpec> cases;  // none: the undistributed optimizer alone
  std::vector<Result> results;
  std::optional<TrainingTrace> trace;
};

std::vector<Group> groups_of(const std::vector<CaseSpec>& cases,
                             const std::vector<CaseSpec>& truths) {
  std::vector<Group> groups;
  const auto group_of = [&](const CaseSpec& spec) -> Group& {
    for (Group& group : groups) {
      if (share_truth(group.first, spec)) return group;
    }
    return groups.emplace_back(Group{spec, {}, {}, {}});
  };
  for (const CaseSpec& spec : cases) group_of(spec).cases.push_back(spec);
  for (const CaseSpec& spec : truths) group_of(spec);
  return groups;
}

/// Counts steps of cases, of all groups together.
class Ticks {
 public:
  Ticks(double total, const ProgressSink& progress) : total_(total), progress_(progress) {}

  void tick(const Experiment& experiment, std::int64_t step) {
    const std::lock_guard lock(mutex_);
    done_ = std::min(done_ + 1, total_);
    progress_(done_ / total_, experiment.workload() + " " + experiment.recipe() + " " +
                                  std::string(name(experiment.param_dtype())) + " step " +
                                  std::to_string(step) + "/" +
                                  std::to_string(experiment.config().steps));
  }

 private:
  std::mutex mutex_;
  double done_ = 0;
  const double total_;
  const ProgressSink& progress_;
};

/// The cases of one step in parts that may run concurrently, the longest first. A device runs one
/// part at a time.
std::vector<std::vector<CaseRun*>> parts_of(const std::vector<std::unique_ptr<CaseRun>>& runs) {
  std::vector<std::vector<CaseRun*>> parts;
  std::vector<CaseRun*> on_device;
  for (const auto& run : runs) {
    if (run->spec().implementation.space == Space::device) {
      on_device.push_back(run.get());
    } else {
      parts.push_back({run.get()});
    }
  }
  std::ranges::stable_sort(parts, std::ranges::greater(),
                           [](const auto& part) { return part.front()->spec().world.size; });
  if (!on_device.empty()) parts.insert(parts.begin(), std::move(on_device));
  return parts;
}

/// Some cases of a group, run step by step so that they share the gradients of each step. Their
/// results come in the same order.
class Wave {
 public:
  Wave(const GroupSettings& settings, const Experiment& experiment,
       const std::vector<CaseSpec>& cases, int cases_at_once)
      : settings_(settings),
        experiment_(experiment),
        cases_at_once_(cases_at_once),
        leaves_(experiment, settings.kept),
        runs_(cases.size()) {
    if (settings.with_truth)
      truth_ = std::make_unique<DenseBaseline>(experiment, leaves_, &settings.thread_pool);
    settings.thread_pool.for_each(static_cast<std::int64_t>(cases.size()), [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      runs_[at] = std::make_unique<CaseRun>(experiment, cases[at], settings.make_world(cases[at]),
                                            settings.options.fault, cases_at_once);
      const CaseSpec& spec = cases[at];
      if (settings.options.any_order && spec.implementation.foreign && spec.mode == Mode::lockstep)
        runs_[at]->accept_any_order();
    });
  }

  void run(Ticks& ticks) {
    const std::vector<std::vector<CaseRun*>> parts = parts_of(runs_);
    bool ended = false;
    for (std::int64_t step = 1; step <= experiment_.config().steps && !ended; ++step) {
      ended = truth_ && ends_at(step);
      ticks.tick(experiment_, step);
      settings_.thread_pool.for_each(static_cast<std::int64_t>(parts.size()), [&](std::int64_t i) {
        for (CaseRun* run : parts[i]) {
          run->run_step(step, leaves_, truth_ ? &truth_->optimizer() : nullptr);
          ticks.tick(experiment_, step);
        }
      });
      leaves_.forget();
    }
  }

  /// Steps the undistributed optimizer. True if it ends with the error of on_nonfinite = error: the
  /// cases must end at this step too.
  bool ends_at(std::int64_t step) {
    try {
      truth_->step(step);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::nonfinite) throw;
      return true;
    }
    return false;
  }

  /// Appends the results. Errors (internal): the trajectory of the undistributed optimizer differs
  /// from that of an earlier wave.
  void judge(Group& group) {
    std::optional<Digest> hash;
    if (truth_) {
      TrainingTrace trace = truth_->trace();
      hash = trace.hash;
      ZP_CHECK(!group.trace || group.trace->hash == hash, ErrorCode::internal,
               "the undistributed optimizer has another trajectory the second time",
               "equal gradients must result in equal bits", "test this machine's memory");
      group.trace = std::move(trace);
    }
    std::vector<Result> results;
    for (const auto& run : runs_) {
      results.push_back(run->result(hash, replay_line(settings_.options, run->spec().id())));
      if (group.trace) say_norm(results.back(), *group.trace);
    }
    settings_.thread_pool.for_each(static_cast<std::int64_t>(runs_.size()), [&](std::int64_t i) {
      if (!runs_[i]->broke_off()) name_message(runs_[i]->spec(), results[i]);
    });
    for (Result& result : results) group.results.push_back(std::move(result));
  }

 private:
  /// Runs a case that no error ended again up to its first difference, with a log of all messages,
  /// to name a broken one. The first run has no log, since a case fails the same way every time.
  /// Collective, because all processes of a case have the same first difference.
  void name_message(const CaseSpec& spec, Result& result) const {
    const bool has_messages = spec.world.size > 1 && spec.implementation.space == Space::host &&
                              !spec.implementation.foreign;
    if (!has_messages || !result.divergence) return;
    const Divergence& first = *result.divergence;
    CaseRun again(experiment_, spec, settings_.make_world(spec), settings_.options.fault,
                  cases_at_once_, true);
    GradCache leaves(experiment_, settings_.kept);
    for (std::int64_t step = 1; step <= first.step; ++step) {
      again.run_step(step, leaves, nullptr);
      leaves.forget();
    }
    const std::optional<Divergence> found = again.result({}, "").divergence;
    if (!found || earlier(*found, first) || earlier(first, *found) || !found->message) return;
    result.divergence->message = found->message;
    result.reason = describe(*result.divergence);
  }

  const GroupSettings& settings_;
  const Experiment& experiment_;
  const int cases_at_once_;
  GradCache leaves_;
  std::unique_ptr<DenseBaseline> truth_;
  std::vector<std::unique_ptr<CaseRun>> runs_;
};

/// Bytes that the cases of a group hold while they run: both sides, and the stored copies of the
/// candidate's buffers.
std::uint64_t memory_of(const Group& group, const Experiment& experiment) {
  constexpr std::uint64_t bytes_per_element = 100;
  const auto numel = static_cast<std::uint64_t>(experiment.layout().padded_numel());
  return (group.cases.size() + 1) * numel * bytes_per_element;
}

/// The number of groups that run concurrently: one per core, and together at most half of the
/// available memory.
std::int64_t groups_at_once(const GroupSettings& settings, const std::vector<Group>& groups) {
  if (settings.thread_pool.num_threads() == 1) return 1;
  std::uint64_t largest = 1;
  for (const Group& group : groups) {
    largest = std::max(
        largest, memory_of(group, experiment_of(settings.options, group.first, settings.texts)));
  }
  const auto fit = static_cast<std::int64_t>(available_memory() / 2 / largest);
  return std::clamp<std::int64_t>(fit, 1, settings.thread_pool.num_threads());
}

}  // namespace

bool traces_case(const TrainingTrace& trace, const CaseSpec& spec) {
  return trace.workload == spec.workload && trace.recipe == spec.recipe &&
         trace.dtype == spec.dtype && trace.grad_sum == hashed_sum(spec);
}

void say_norm(Result& result, const TrainingTrace& trace) {
  if (result.status != Status::mistrusted || result.reason != clipping_never_bound) return;
  double largest = 0;
  for (const TrainingStep& step : trace.steps) {
    if (std::isfinite(step.grad_norm)) largest = std::max(largest, step.grad_norm);
  }
  result.reason += ", the largest norm was " + shown(largest) + "; use a --max-norm below that";
}

Experiment experiment_of(const VerifyOptions& options, const CaseSpec& spec, const Texts& texts) {
  return Experiment(spec.workload, config_of(options, spec), spec.dtype, texts.at(spec.workload),
                    spec.recipe);
}

void run_groups(const GroupSettings& settings, const std::vector<CaseSpec>& cases,
                const std::vector<CaseSpec>& truths, RunReport& report,
                const ProgressSink& progress) {
  std::vector<Group> groups = groups_of(cases, truths);
  if (groups.empty()) return;
  const bool ahead = settings.first_ahead && groups.front().cases.size() > 1;
  double total = 0;
  for (const Group& group : groups) {
    const auto steps = static_cast<double>(config_of(settings.options, group.first).steps);
    total += steps * static_cast<double>(group.cases.size() + 1);
    if (ahead && &group == &groups.front())
      total += steps;  // the undistributed optimizer runs twice
  }
  Ticks ticks(total, progress);
  const int at_once = static_cast<int>(std::min<std::size_t>(
      static_cast<std::size_t>(settings.thread_pool.num_threads()), cases.size()));
  std::mutex telling;
  const auto run_wave = [&](Group& group, const Experiment& experiment,
                            const std::vector<CaseSpec>& some, int cases_at_once) {
    Wave wave(settings, experiment, some, std::max(cases_at_once, 1));
    wave.run(ticks);
    const std::size_t before = group.results.size();
    wave.judge(group);
    const std::lock_guard lock(telling);
    const auto fresh = Span<const Result>(group.results).subspan(before);
    if (settings.options.on_verdicts) settings.options.on_verdicts(fresh);
    if (settings.options.on_results) settings.options.on_results(fresh);
  };
  if (ahead) {
    Group& group = groups.front();
    run_wave(group, experiment_of(settings.options, group.first, settings.texts),
             {group.cases.front()}, 1);
  }
  std::atomic<std::size_t> next{0};
  const std::int64_t groups_beside = groups_at_once(settings, groups);
  settings.thread_pool.for_each(groups_beside, [&](std::int64_t) {
    for (std::size_t i = next++; i < groups.size(); i = next++) {
      Group& group = groups[i];
      const auto rest = Span<const CaseSpec>(group.cases).subspan(group.results.size());
      run_wave(group, experiment_of(settings.options, group.first, settings.texts),
               {rest.begin(), rest.end()}, at_once);
    }
  });
  for (Group& group : groups) {
    if (group.trace) report.traces.push_back(std::move(*group.trace));
    for (Result& result : group.results) report.results.push_back(std::move(result));
  }
}

}  // namespace zeroproof::verification
