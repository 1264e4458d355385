// The harness runs wrong optimizers: every one must be caught, with the correct place.

#include <doctest.h>

#include <algorithm>
#include <set>

#include "verification/cases/suites/selection.hpp"
#include "verification/cli/program/plant.hpp"
#include "verification/faults/fault_plan.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

/// A case with the outcome of its row.
RowOutcome as_expected(const Fault& fault, const FaultCase& row) {
  RowOutcome outcome;
  outcome.status = row.refused ? Status::error : Status::fail;
  outcome.reason = "first " + std::string(row.says) + " last";
  if (row.refused) return outcome;
  Divergence d;
  d.step = row.step;
  d.phase = fault.phase;
  d.rank = row.rank;
  d.buffer = row.buffer;
  if (row.elements) {
    d.parameter = row.elements->parameter.value_or("any");
    d.global_index = row.elements->first.value_or(1);
    d.last_global_index = row.elements->last.value_or(2);
  }
  outcome.divergence = d;
  return outcome;
}

const Fault& fault_of(std::string_view id) {
  return *std::ranges::find(fault_catalogue(), id, &Fault::id);
}

/// Hints of faults whose cause is visible in the data, and their share of all compared faults.
void check_hints(const FaultReport& report) {
  struct Row {
    std::string_view fault, says;
  };
  constexpr Row rows[] = {
      {"do-nothing", "not written"},
      {"shard-from-unpadded-count", "not written"},
      {"empty-tail-drops-launch", "not written"},
      {"amsgrad-max-not-kept", "not written"},
      {"vector-body-not-stored", "NaN"},
      {"last-bucket-not-gathered", "NaN; only in elements 10477 to 12268"},
      {"transport-corrupts-a-line", "only in elements 0 to 63"},
      {"double-unscale", "multiplied by 3.487723e-05, inv_scale"},
      {"sum-instead-of-mean",
       "only inv_scale differs: they hold the expected values multiplied by 7, the number of "
       "micro"},
      {"default-differs", "only eps differs"},
      {"power-by-running-product",
       "only sqrt_bias_correction2 differs: they hold a neighbouring number"},
      {"no-decay-group-decays", "only lr_weight_decay, weight_decay, has_decay differ"},
      {"instances-reduced-twice", "multiplied by 2, the number of instances"},
      {"state-zeroed-each-step", "0.1 times the values of grad"},
      {"dampening-in-first-step", "0.5 times the expected values"},
      {"zero-instead-of-none", "multiplied by 0.9, beta1"},
      {"bf16-accumulator", "the precision of bf16"},
      {"moments-in-half", "the precision of bf16"},
      {"truncated-by-one-isa", "at most 2 units in the last place away"},
      {"found-inf-not-global", "their previous values"},
      {"replicated-counted-per-rank",
       "3 times the expected sum: as if everything was counted 3 times, the number of ranks"},
      {"norm-added-over-instances",
       "as if everything was counted 2 times, the number of instances"},
      {"integers-not-waited-for", "as if a part was left out"},
      {"norm-differs-across-ranks", "; on rank 7 alone, of 8"},
      {"counter-shared-by-tensors", "1 more than expected"},
      {"scaler-partly-saved",
       "only the logarithm of the scale, by 1 less, the growth tracker, by 1 more"},
      {"norm-squared-in-fp32", "the precision of fp32"},
      {"idle-rank-sends-zeros", "0 with the other sign"},
      {"flag-not-cleared", "it is set, and on no rank"},
      {"lbfgs-curvature-not-tested", "1 less than expected"},
      {"resume-forgets-moment", "0"},
      {"resume-saves-rounded-masters", "the precision of bf16"},
      {"lr-frozen-at-capture", "only step_size, lr_weight_decay, weight_decay, lr differ"},
  };
  for (const Row& row : rows) {
    const auto finding = std::ranges::find(report.faults, row.fault,
                                           [](const FaultFinding& f) { return f.fault->id; });
    REQUIRE(finding != report.faults.end());
    CAPTURE(std::string(row.fault));
    CAPTURE(finding->divergence->hint);
    CHECK(finding->divergence->hint.find(row.says) != std::string::npos);
  }
  int compared = 0;
  int hinted = 0;
  for (const FaultFinding& finding : report.faults) {
    if (!finding.divergence || !finding.divergence->phase || finding.divergence->differing == 0)
      continue;
    ++compared;  // elements of a phase, not a buffer that is missing or written past its end
    hinted += finding.divergence->hint.empty() ? 0 : 1;
  }
  MESSAGE("hints for " << hinted << " of " << compared << " faults whose elements were compared");
  CHECK(100 * hinted >= 65 * compared);
}

}  // namespace

TEST_CASE(
    "faults: every fault is caught at its step, phase, rank, buffer and range; no false alarm") {
  REQUIRE(faults_built());
  const FaultReport report = run_faults({}, [](double, const std::string&) {});
  std::set<std::string_view> classes;
  for (const FaultFinding& finding : report.faults) {
    CAPTURE(std::string(finding.fault->id));
    CAPTURE(finding.reason);
    CHECK(finding.caught);
    CHECK(finding.attributed);
    CHECK(finding.exact);
    classes.insert(finding.fault->fault_class);
  }
  for (const ControlFinding& control : report.controls) {
    CAPTURE(std::string(control.case_id));
    CAPTURE(control.reason);
    CHECK(control.status == Status::pass);
    CHECK_FALSE(control.mistrusted());
  }
  CHECK(report.survivors() == 0);
  CHECK(report.false_alarms() == 0);
  CHECK(exit_code(report) == 0);
  CHECK(classes.size() >= 24);
  check_hints(report);
  MESSAGE(to_text(report, false));
}

TEST_CASE("fault plan: one row for every fault, and at least 70 from public bugs") {
  std::set<std::string_view> rows;
  for (const FaultCase& row : fault_plan()) CHECK_MESSAGE(rows.insert(row.fault).second, row.fault);
  int from_public_bugs = 0;
  int implementations = 0;
  for (const Fault& fault : fault_catalogue()) {
    CHECK_MESSAGE(rows.erase(fault.id) == 1, fault.id);
    if (!fault.source.empty()) ++from_public_bugs;
    if (fault.kind == FaultKind::implementation) ++implementations;
  }
  CHECK(rows.empty());
  CHECK(fault_catalogue().size() >= 200);
  CHECK(from_public_bugs >= 70);
  CHECK(implementations >= 80);
  CHECK(lbfgs_faults().size() == lbfgs_fault_plan().size());
  CHECK(resume_faults().size() == resume_fault_plan().size());
  CHECK(device_faults().size() == device_fault_plan().size());
  CHECK(format_faults().size() == format_fault_plan().size());
  CHECK(operation_faults().size() == operation_fault_plan().size());
  for (const Fault& fault : lbfgs_faults()) CHECK_FALSE(fault.phase.has_value());
}

TEST_CASE("faults: free runs catch them too") {
  for (const FaultCase& row : fault_plan()) {
    if (row.case_id.find("/whole/") != std::string_view::npos) continue;  // runs free
    CAPTURE(std::string(row.fault));
    CHECK(run_row(row, row.fault, Mode::free).status ==
          (row.refused ? Status::error : Status::fail));
  }
}

TEST_CASE("faults: a wrong implementation passes where its fault has no effect") {
  // Otherwise it would be caught for another reason. One instance has nothing to reduce twice,
  // several ranks double nothing, bins that are not merged cannot be merged unaligned. A step that
  // is not replayed has no replay faults, one flag is its own sum, and a single rank has no other.
  // A wrong operation is wrong only in its own calls. A tensor with one scale has no neighbouring
  // scale, values stored in bf16 lose nothing in bf16, e4m3 has its own format, and no chunk splits
  // a block of state.
  struct Row {
    const char* fault;
    const char* in_case_of;
  };
  constexpr Row rows[] = {
      {"instances-reduced-twice", "replicated-counted-per-rank"},
      {"instances-reduced-twice", "senders-share-a-stack"},
      {"instances-reduced-twice", "idle-rank-sends-zeros"},
      {"instances-reduced-twice", "tp-parts-not-combined"},
      {"instances-reduced-twice", "cp-parts-folded-last"},
      {"doubles-each-microbatch", "instances-not-reduced"},
      {"bins-merged-unaligned", "lower-bin-forgotten"},
      {"amsgrad-max-not-kept", "do-nothing"},
      {"inf-norm-takes-root", "do-nothing"},
      {"one-counter-for-all", "do-nothing"},
      {"default-norm-counts-groups", "do-nothing"},
      {"norm-of-another-group", "do-nothing"},
      {"one-norm-reduced", "do-nothing"},
      {"limit-of-the-run-for-groups", "do-nothing"},
      {"one-coefficient-for-groups", "do-nothing"},
      {"update-reads-first-clip-group", "sums-not-cleared"},
      {"t-frozen-at-capture", "gather-before-update"},
      {"idle-bits-frozen-at-capture", "sums-not-cleared"},
      {"flags-added-up", "sums-not-cleared"},
      {"clip-before-integers", "status-read-early"},
      {"update-reads-first-group", "sums-not-cleared"},
      {"integers-not-waited-for", "status-read-early"},
      {"swiglu-held-at-one-end", "swiglu-slope-is-sigmoid"},
      {"rms-eps-outside-root", "causal-mask-off-by-one"},
      {"histogram-last-edge-outside", "histogram-joined-from-below"},
      {"remainder-lost", "split-rounds-to-even"},
      {"scale-of-other-format", "codes-by-last-scale"},
      {"block-scale-of-neighbour", "codes-by-last-scale"},
      {"code-one-branch-short", "scale-of-other-format"},
      {"cast-twice", "history-rolls-when-idle"},
      {"columns-not-rebuilt", "history-rolls-when-idle"},
      {"state-scale-of-neighbour", "master-drawn-as-last-step"},
      {"state-amax-not-joined", "state-scale-of-neighbour"},
      {"resting-state-stored-again", "state-scale-of-neighbour"},
      {"master-drawn-as-last-step", "state-scale-of-neighbour"},
      {"lbfgs-max-eval-per-iteration", "lbfgs-dot-in-fp32"},
      {"lbfgs-failed-search-keeps-x", "lbfgs-curvature-not-tested"},
      {"lbfgs-unmade-move-remembered", "lbfgs-failed-search-keeps-memory"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.fault));
    CAPTURE(std::string(row.in_case_of));
    const RowOutcome outcome = run_row(plan_of(row.in_case_of), row.fault, Mode::lockstep);
    CAPTURE(outcome.reason);
    CHECK(outcome.status == Status::pass);
  }
}

TEST_CASE("faults: a rank without a micro-batch that uses its own sum uses zeros") {
  const RowOutcome outcome =
      run_row(plan_of("idle-rank-sends-zeros"), "reduce-reads-other-buffer", Mode::lockstep);
  CAPTURE(outcome.reason);
  REQUIRE(outcome.status == Status::fail);
  REQUIRE(outcome.divergence.has_value());
  CHECK(outcome.divergence->phase == Phase::reduce);
  CHECK(outcome.divergence->buffer == "grad_sum");
}

TEST_CASE("faults: planting in an unsuitable candidate is refused") {
  const auto refusal = [](std::string_view fault, std::string_view case_of) {
    const RowOutcome outcome = run_row(plan_of(case_of), fault, Mode::lockstep);
    CHECK(outcome.status == Status::skipped);
    return outcome.reason;
  };
  CHECK(refusal("do-nothing", "sums-not-cleared").find("use --impl host or host-fused") !=
        std::string::npos);
  for (const Fault& fault : device_faults()) {
    CAPTURE(std::string(fault.id));
    CHECK(refusal(fault.id, "do-nothing").find("needs the simulated device or a GPU") !=
          std::string::npos);
  }
  for (const Fault& fault : operation_faults()) {
    CAPTURE(std::string(fault.id));
    CHECK(refusal(fault.id, "do-nothing").find("no step of an optimizer calls") !=
          std::string::npos);
  }
  struct Row {
    const char* fault;
    const char* case_of;
    const char* says;
  };
  constexpr Row rows[] = {
      {"codes-by-last-scale", "do-nothing", "planted without scales of parameters"},
      {"history-rolls-when-idle", "codes-by-last-scale", "planted without histories of amaxes"},
      {"resume-saves-scale-by-reference", "codes-by-last-scale",
       "planted without histories of amaxes"},
      {"amax-not-over-tp", "history-rolls-when-idle", "planted without TP"},
      {"state-zero-drifts", "do-nothing", "planted in state that is kept in fp32"}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.fault));
    CHECK(refusal(row.fault, row.case_of).find(row.says) != std::string::npos);
  }
}

TEST_CASE("fault report: only the place of the plan is exact") {
  for (const FaultCase& row : fault_plan()) {
    CAPTURE(std::string(row.fault));
    const Fault& fault = fault_of(row.fault);
    const RowOutcome right = as_expected(fault, row);
    CHECK(judge_fault(fault, row, right).exact);
    const auto judged = [&](const auto& change) {
      RowOutcome outcome = right;
      change(outcome);
      const FaultFinding finding = judge_fault(fault, row, outcome);
      CHECK((finding.attributed || !finding.exact));
      return finding;
    };
    const auto elsewhere = [&](const auto& change) {
      return judged([&](RowOutcome& outcome) { change(*outcome.divergence); });
    };
    CHECK_FALSE(judged([](RowOutcome& o) { o.status = Status::pass; }).caught);
    CHECK_FALSE(judged([](RowOutcome& o) { o.status = Status::mistrusted; }).caught);
    CHECK_FALSE(judged([](RowOutcome& o) { o.status = Status::hung; }).exact);
    if (!row.says.empty()) CHECK_FALSE(judged([](RowOutcome& o) { o.reason = "it failed"; }).exact);
    if (row.refused) continue;
    CHECK_FALSE(judged([](RowOutcome& o) { o.divergence.reset(); }).attributed);
    CHECK_FALSE(elsewhere([](Divergence& d) { ++d.step; }).exact);
    CHECK_FALSE(elsewhere([](Divergence& d) { ++d.rank; }).exact);
    CHECK_FALSE(elsewhere([](Divergence& d) { d.buffer += "2"; }).attributed);
    CHECK_FALSE(elsewhere([](Divergence& d) {
                  d.phase = d.phase == Phase::cast ? Phase::gather : Phase::cast;
                }).attributed);
    if (!row.elements || row.elements->parameter) {
      CHECK_FALSE(elsewhere([](Divergence& d) { d.parameter = "head.bias"; }).attributed);
    }
    if (!row.elements || row.elements->first) {
      CHECK_FALSE(elsewhere([](Divergence& d) { ++d.global_index; }).exact);
    }
    if (!row.elements || row.elements->last) {
      CHECK_FALSE(elsewhere([](Divergence& d) { --d.last_global_index; }).exact);
    }
  }
}

TEST_CASE("fault report: survivor, wrong place and false alarm are distinguished") {
  FaultReport report;
  const Fault& fault = fault_catalogue().front();
  report.faults.push_back({&fault, &plan_of(fault.id), true, true, true, std::nullopt, ""});
  report.controls.push_back({"some/case", nullptr, Status::pass, "", 1, 1});
  CHECK(exit_code(report) == 0);
  report.faults[0].exact = false;  // phase and buffer are still correct
  CHECK(exit_code(report) == 1);
  CHECK(report.survivors() == 0);
  report.faults[0].caught = false;
  CHECK(report.survivors() == 1);
  report.faults[0] = {&fault, &plan_of(fault.id), true, true, true, std::nullopt, ""};
  report.controls[0].status = Status::fail;
  CHECK(report.false_alarms() == 1);
  CHECK(exit_code(report) == 1);
  report.controls[0] = {"some/case", nullptr, Status::pass, "", 2, 0};
  CHECK(report.controls[0].mistrusted());
  CHECK(exit_code(report) == 1);
  CHECK(to_text(report, false).find("mistrusted") != std::string::npos);
}

TEST_CASE("train: a run with a fault reports its own losses") {
  VerifyOptions options;
  options.patterns = {
      "byte_gpt_tiny/adamw/host-fused/stage1/threads:4/bf16/free/bucket:4096/omp:1"};
  options.fault = "replicated-counted-per-rank";
  const RunReport report =
      run_selection(options, select_cases(options), [](double, const std::string&) {});
  REQUIRE(report.results.size() == 1);
  const TrainingRun& run = *report.results.front().training;
  REQUIRE(run.losses.size() == report.traces.front().steps.size());
  REQUIRE(run.reference_losses.size() == run.losses.size());
  CHECK(run.losses.front() == run.reference_losses.front());  // nothing has been updated
  CHECK(run.losses.back() != run.reference_losses.back());
  for (std::size_t i = 0; i < run.losses.size(); ++i) {
    CHECK(run.reference_losses[i] == report.traces.front().steps[i].loss);
  }
}

TEST_CASE("faults: a case without the part that has the fault is skipped, with the reason") {
  VerifyOptions options;
  options.patterns = {"comm/all_gather/threads:3/equal/adjacent",
                      "lbfgs/rosenbrock/armijo/threads:2/contract"};
  options.fault = "do-nothing";
  const RunReport report =
      run_selection(options, select_cases(options), [](double, const std::string&) {});
  REQUIRE(report.results.size() == 2);
  for (const Result& result : report.results) {
    CAPTURE(result.reason);
    CHECK(result.status == Status::skipped);
    const std::string part = result.suite == "comm" ? "a collective" : "L-BFGS";
    CHECK(result.reason.find("'do-nothing' is not in " + part) != std::string::npos);
  }
}
