#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>

#include "common/base/error.hpp"
#include "common/base/fpenv.hpp"
#include "verification/cli/program/exit_code.hpp"
#include "verification/compare/judge.hpp"
#include "verification/ops/bound_ratio.hpp"
#include "verification/ops/declined_calls.hpp"
#include "verification/ops/failed_call.hpp"
#include "verification/ops/op_case.hpp"
#include "verification/ops/repetition.hpp"

namespace zeroproof::verification {
namespace {

using Clock = std::chrono::steady_clock;

/// One candidate against the reference, over all points of a sweep.
class OpJudge {
 public:
  OpJudge(const OpCaseSpec& spec, const OpRunOptions& options)
      : spec_(spec),
        repetition_(*spec.op),
        expectation_(options.expectation),
        declined_(*spec.op),
        accepts_declined_(options.accepts_declined) {
    result_.id = spec.id();
    result_.suite = "op";
    result_.group = spec.op->name;
    result_.side = spec.candidate->side();
    if (options.expectation != nullptr) against_ = options.expectation->name();
    accepts_any_order_ = options.any_order && spec.candidate->foreign() && spec.op->bounds;
    accepts_powers_ = accepts_any_order_ && options.fp32_powers && spec.op->corrects_bias;
    result_.exactness = name(accepts_any_order_ ? Exactness::bounded : spec.op->exactness);
    result_.held_to = held_to(options);
    if (accepts_any_order_) result_.judged.emplace();
    if (spec.candidate->foreign() && spec.op->statistic) statistic_ = spec.op->statistic();
    result_.replay = options.replay_line ? options.replay_line(result_.id) : result_.id;
    result_.status = Status::pass;
    const bool wanted = options.expectation == nullptr || options.expectation->covers(*spec.op);
    const std::string obstacle =
        wanted ? spec.candidate->obstacle(*spec.op) : against_ + " computes something else";
    if (obstacle.empty()) {
      function_ = spec.candidate->function(*spec.op, options.fault);
    } else {
      end(Status::skipped, obstacle);
    }
  }

  /// Runs the candidate, before the expected results exist in memory.
  void run(const OpCall& pristine) {
    if (over_) return;
    candidate_ = pristine.fresh();
    if (const std::optional<std::string> why = declines(*candidate_))
      leave_out(pristine.shape(), *why);
  }

  /// True if the candidate is called for this seed: the first of a run, or another one.
  bool takes(bool first_seed) const {
    return !over_ && (first_seed || spec_.candidate->may_remember());
  }

  /// Ends the sweep: later events are failures.
  void settle() {
    if (over_) return;
    const std::string repeated = repetition_.of_single_results();
    if (!repeated.empty()) return end(Status::tampered, repeated);
    try {
      spec_.candidate->settle();
    } catch (const CandidateFailure& failure) {
      end(failure.status(), failure.what());
    }
  }

  /// Compares the results of run() with the reference.
  void judge(const OpCall& pristine, const OpCall& reference) {
    if (over_ || !candidate_) return;
    declined_.add(pristine.shape(), false);
    compare_call(pristine, reference, *candidate_);
    if (!spec_.candidate->may_remember()) return;
    const std::string repeated = repetition_.look(pristine, reference, *candidate_);
    if (!repeated.empty()) end(Status::tampered, repeated);
  }

  void end(Status status, const std::string& reason) {
    over_ = true;
    result_.status = status;
    result_.reason = reason;
  }

  bool runs() const { return !over_; }

  Result result() {
    result_.compared = judge_.compared();
    result_.differing = judge_.differing();
    result_.ranks = {judge_.results(0)};
    result_.divergence = judge_.first();
    if (result_.divergence) result_.divergence->hint = hints_.of(result_.divergence->buffer);
    if (over_) return result_;
    if (declined_.all()) {
      end(Status::skipped, why_left_out_);
      return result_;
    }
    weigh();
    const std::string problem = statistic_ ? statistic_->problem() : "";
    const bool others = result_.legal_differences > 0;  // the contract's own bits need no statistic
    if (accepts_any_order_ && others && !result_.divergence && !problem.empty()) {
      result_.status = Status::fail;
      result_.reason = problem;
    } else if (result_.divergence) {
      result_.status = Status::fail;
      result_.reason = describe(*result_.divergence);
    } else if (result_.compared == 0) {
      result_.status = Status::mistrusted;
      result_.reason = "nothing was compared";
    } else if (result_.judged && result_.judged->too_few()) {
      result_.status = Status::mistrusted;
      result_.reason = std::to_string(result_.judged->nothing) + " of " +
                       std::to_string(result_.judged->total()) +
                       " results were not judged: no bound applies, and every class is legal";
    } else if (result_.legal_differences > 0 && ratio_.worst == 0 && ratio_.judged.bound == 0) {
      result_.status = Status::mistrusted;
      result_.reason = "results have other bits, and all of them are beyond the bound's conditions";
    } else if (spec_.fill != Fill::zero &&
               8 * informative_ < elements_) {  // the fill zero is a control: zeros must stay zeros
      result_.status = Status::mistrusted;
      result_.reason = "fewer than one result in eight is a number other than zero";
    } else if (declined_.any()) {
      result_.reason = declined_.text() + ": " + why_left_out_;
      const std::string missing = accepts_declined_ ? "" : declined_.missing();
      if (missing.empty()) return result_;
      result_.status = Status::mistrusted;
      result_.reason += "; " + missing + " (accepted with --declined accept)";
    }
    return result_;
  }

 private:
  /// Runs the candidate on a call. The reason if it does not support it.
  std::optional<std::string> declines(OpCall& call) {
    const auto begin = Clock::now();
    std::optional<std::string> why;
    try {
      function_(call);
    } catch (const CandidateFailure& failure) {
      if (failure.status() == Status::skipped)
        why = failure.what();
      else
        end(failure.status(),
            std::string(failure.what()) + " (" + shape_text(*spec_.op, call.shape()) + ")");
    } catch (const Error& error) {
      end(error.code() == ErrorCode::unavailable ? Status::skipped : Status::error, error.what());
    } catch (const std::exception& error) {
      end(Status::error, message_of(error));
    }
    result_.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    return why;
  }

  /// The calls that the bounds of the judged one need besides.
  void run_earlier(const OpCall& pristine) {
    for (const int variant : spec_.op->earlier(pristine)) {
      OpCall& call = candidate_->earlier.emplace_back(pristine.fresh(variant));
      const bool taken = expectation_ == nullptr || expectation_->takes(*spec_.op, call);
      if (!taken || declines(call) || over_) return candidate_->earlier.clear();
      const std::string damage = call.damage(pristine);
      if (!damage.empty()) judge_.note(place(pristine, "", damage));
    }
  }

  std::string held_to(const OpRunOptions& options) const {
    if (accepts_any_order_) return accepts_powers_ ? "any-order,fp32-powers" : "any-order";
    if (spec_.op->exactness == Exactness::bounded) return "bound";
    return options.expectation == nullptr ? "contract" : options.expectation->held_to();
  }

  /// A call that the candidate does not support; the first reason is reported.
  void leave_out(const CallShape& shape, const std::string& why) {
    candidate_.reset();
    declined_.add(shape, true);
    if (why_left_out_.empty()) why_left_out_ = why;
  }

  void compare_call(const OpCall& pristine, const OpCall& reference, const OpCall& candidate) {
    for (const std::size_t k : outputs_in_flow(*spec_.op))
      judge_.see(candidate.view(k), 0, candidate.view(k).numel);
    const bool failed_before = judge_.first().has_value();
    compare_buffers(pristine, reference, candidate);
    if (judge_.first().has_value() && !failed_before)
      result_.tensors = saved_tensors(*spec_.op, pristine, reference, candidate);
  }

  void compare_buffers(const OpCall& pristine, const OpCall& reference, const OpCall& candidate) {
    const std::string damage = candidate.damage(pristine);
    if (!damage.empty()) judge_.note(place(pristine, "", damage));
    if (statistic_) statistic_->add(pristine, candidate);
    if (accepts_any_order_) return compare_any_order(pristine, reference, candidate);
    const std::int64_t differing_before = judge_.differing();
    if (spec_.op->exactness == Exactness::bounded) {
      compare_bounded(pristine, reference, candidate);
    } else {
      for (const std::size_t k : outputs_in_flow(*spec_.op))
        compare_output(k, pristine, reference, candidate, candidate);
    }
    count_informative(pristine, reference, candidate);
    if (judge_.differing() == differing_before) return;
    weigh_call(pristine, reference, candidate);
    hints_.look(*spec_.op, pristine, candidate);
  }

  /// Errors are the results that no legal order has; hints and extent are derived from them alone.
  void compare_any_order(const OpCall& pristine, const OpCall& reference, const OpCall& candidate) {
    std::optional<OpCall> illegal;
    const std::int64_t beyond_before = ratio_.beyond, differing_before = judge_.differing();
    std::int64_t other_bits = 0, results = 0;
    for (const std::size_t k : outputs_in_flow(*spec_.op)) {
      const TensorView want = reference.view(k);
      const Comparison comparison = compare(want, candidate.view(k), 0, want.numel);
      results += comparison.compared;
      other_bits += comparison.differing;
      if (comparison.first) result_.ulps.add(want, candidate.view(k));
    }
    if (other_bits > 0) {
      illegal = reference.copy();
      weigh_call(pristine, reference, candidate, &*illegal);
    } else {
      ratio_.judged.bits += results;
    }
    for (const std::size_t k : outputs_in_flow(*spec_.op))
      compare_output(k, pristine, reference, candidate, illegal ? *illegal : reference);
    count_informative(pristine, reference, candidate);
    const std::int64_t wrong = judge_.differing() - differing_before;
    if (wrong > 0) hints_.look(*spec_.op, pristine, candidate);
    result_.legal_differences += other_bits - wrong;
    if (wrong == 0 && ratio_.beyond > beyond_before) {  // of the reference's bits
      judge_.note(place(pristine, ratio_.buffer, "contradicts the other results of the call"),
                  ratio_.beyond - beyond_before);
    }
  }

  /// Results with other bits of a candidate that need not use the contract's order.
  void weigh_call(const OpCall& pristine, const OpCall& reference, const OpCall& candidate,
                  OpCall* illegal = nullptr) {
    if (!spec_.candidate->foreign() || !spec_.op->bounds) return;
    if (spec_.op->earlier) run_earlier(pristine);
    BoundRatio ratio =
        bound_ratio(*spec_.op, pristine, reference, candidate, illegal, accepts_powers_);
    ratio.call = shape_text(*spec_.op, pristine.shape());
    ratio_.add(ratio);
  }

  void count_informative(const OpCall& pristine, const OpCall& reference, const OpCall& candidate) {
    if (spec_.op->exactness == Exactness::bounded) {
      ++elements_;
      informative_ += spec_.op->contract_ratio(candidate) > 0 ? 8 : 0;
      return;
    }
    std::int64_t most_informative = 0;
    for (const std::size_t k : outputs_in_flow(*spec_.op))
      most_informative = std::max(most_informative, informative_elements(k, reference));
    informative_ += most_informative;
    elements_ += pristine.numel() > 0 ? units(pristine) : 0;
  }

  void compare_bounded(const OpCall& pristine, const OpCall& reference, const OpCall& candidate) {
    const double ratio = spec_.op->contract_ratio(candidate);
    result_.worst_ratio = std::max(result_.worst_ratio, ratio);
    judge_.count({1, 0, {}, -1}, DType::fp64, {});
    if (ratio <= 1) return;
    const std::size_t k = outputs_in_flow(*spec_.op).front();
    const Operand& operand = spec_.op->operands[k];
    Divergence d =
        place(pristine, operand.name,
              "has an error beyond its bound, " + std::to_string(ratio) + " times the bound");
    d.reference_value = show_bits(operand.dtype, element_bits(reference.view(k), 0));
    d.candidate_value = show_bits(operand.dtype, element_bits(candidate.view(k), 0));
    d.exact_value = exact_value(*spec_.op, k, 0, pristine, candidate);
    judge_.note(std::move(d), 1);
  }

  /// The differences between `reference` and `wrong`: the candidate, or its illegal results.
  void compare_output(std::size_t k, const OpCall& pristine, const OpCall& reference,
                      const OpCall& candidate, const OpCall& wrong) {
    const Operand& operand = spec_.op->operands[k];
    const TensorView want = reference.view(k);
    const TensorView got = wrong.view(k);
    const Comparison comparison = compare(want, got, 0, want.numel);
    if (comparison.first) {
      if (!accepts_any_order_) result_.ulps.add(want, got);
      hints_.look(*spec_.op, k, comparison.differing, pristine, reference, wrong,
                  accepts_any_order_);
    }
    judge_.count(comparison, operand.shown_format(),
                 place(pristine, operand.name,
                       accepts_any_order_ ? "has a value that no legal order produces"
                                          : "differs from " + against_),
                 [&](Divergence& d, std::int64_t first, std::int64_t) {
                   d.exact_value = exact_value(*spec_.op, k, first, pristine, candidate);
                   if (operand.per_element == 0) return;
                   d.inputs = inputs_at(*spec_.op, pristine, first / operand.per_element);
                 });
  }

  /// Reports whether a legal order explains the results.
  void weigh() {
    if (accepts_any_order_) result_.judged = ratio_.judged;
    if (ratio_.judged.total() > 0) result_.worst_ratio = ratio_.worst;
    if (!result_.divergence || !spec_.candidate->foreign()) return;
    const std::string& why = spec_.op->one_result;
    if (!why.empty() && !result_.divergence->candidate_value.empty()) {
      result_.divergence->order =
          "in no legal order: for every order there is one result, because " + why;
    } else if (statistic_ && !statistic_->problem().empty()) {
      result_.divergence->order = "in no legal order: " + statistic_->problem();
    } else if (ratio_.beyond > 0 || (!accepts_any_order_ && ratio_.judged.total() > 0)) {
      result_.divergence->order = to_string(ratio_);
    }
  }

  Divergence place(const OpCall& pristine, const std::string& buffer,
                   const std::string& what) const {
    Divergence d;
    d.phase.reset();
    d.buffer = buffer;
    d.what = what;
    d.call = shape_text(*spec_.op, pristine.shape());
    return d;
  }

  /// Number of results: elements, or one if all outputs have a fixed size.
  static std::int64_t units(const OpCall& call) { return std::max<std::int64_t>(1, call.numel()); }

  /// Results with a word that is neither zero nor NaN, scaled to units(): all zeros prove little.
  std::int64_t informative_elements(std::size_t k, const OpCall& reference) const {
    const Operand& operand = spec_.op->operands[k];
    const TensorView view = reference.view(k);
    const std::int64_t width = operand.per_element > 0 ? operand.per_element : view.numel;
    std::int64_t informative = 0;
    for (std::int64_t i = 0; width > 0 && i + width <= view.numel; i += width) {
      bool found = false;
      for (std::int64_t j = i; j < i + width && !found; ++j) {
        const std::uint64_t bits = element_bits(view, j);
        found = bits != 0 && !is_nan_bits(view.dtype, bits);
      }
      informative += found ? 1 : 0;
    }
    return operand.per_element > 0 ? informative : informative * units(reference);
  }

  OpCaseSpec spec_;
  OpFunction function_;
  std::optional<OpCall> candidate_;  // the judged call
  Result result_;
  Judge judge_;
  OpHints hints_;
  std::unique_ptr<CallStatistic> statistic_;
  Repetition repetition_;
  BoundRatio ratio_;  // over calls with other bits, for candidates that may have them
  std::string against_ = "the reference";
  bool accepts_any_order_ = false, accepts_powers_ = false;
  bool over_ = false;
  const OpExpectation* expectation_;
  DeclinedCalls declined_;
  bool accepts_declined_ = false;
  std::string why_left_out_;
  std::int64_t informative_ = 0, elements_ = 0;
};

/// One point of a sweep, for the candidates that take its seed. False if the reference fails.
bool run_shape(std::vector<OpJudge>& judges, const Op& op, const OpExpectation* expectation,
               const CallShape& shape, bool first_seed) {
  const OpCall pristine(op, shape);
  if (expectation != nullptr && !expectation->takes(op, pristine)) return true;
  std::vector<OpJudge*> takers;
  for (OpJudge& judge : judges) {
    if (judge.takes(first_seed)) takers.push_back(&judge);
  }
  for (OpJudge* judge : takers) judge->run(pristine);
  OpCall reference = pristine.fresh();
  try {
    expectation == nullptr ? op.reference(reference) : expectation->compute(op, reference);
    const std::string damage = reference.damage(pristine);
    ZP_CHECK(damage.empty(), ErrorCode::internal, "the reference of " + op.name + ": " + damage,
             "its results are invalid", "fix the reference first");
  } catch (const std::exception& error) {
    for (OpJudge& judge : judges) judge.end(Status::error, "reference: " + message_of(error));
    return false;
  }
  for (OpJudge* judge : takers) judge->judge(pristine, reference);
  return true;
}

void run_group(std::vector<OpJudge>& judges, const Op& op, Fill fill, const OpRunOptions& options) {
  const std::uint64_t second_seed =
      options.second_seed.value_or(options.seed ^ 0x9E3779B97F4A7C15U);
  for (const bool first : {true, false}) {
    const auto takes = [&](const OpJudge& judge) { return judge.takes(first); };
    if (std::none_of(judges.begin(), judges.end(), takes)) continue;
    for (const CallShape& shape : sweep(op, fill, first ? options.seed : second_seed)) {
      if (!run_shape(judges, op, options.expectation, shape, first)) return;
    }
  }
  for (OpJudge& judge : judges) judge.settle();
}

}  // namespace

std::vector<Result> run_op_cases(const std::vector<OpCaseSpec>& cases,
                                 const OpRunOptions& options) {
  require_fp_environment("the thread that compares operations");
  std::vector<Result> results(cases.size());
  std::vector<bool> done(cases.size(), false);
  double finished = 0;
  for (std::size_t first = 0; first < cases.size(); ++first) {
    if (done[first]) continue;
    std::vector<OpJudge> judges;
    std::vector<std::size_t> places;
    for (std::size_t i = first; i < cases.size(); ++i) {
      if (cases[i].op != cases[first].op || cases[i].fill != cases[first].fill) continue;
      judges.emplace_back(cases[i], options);
      places.push_back(i);
      done[i] = true;
    }
    if (options.progress)
      options.progress(finished / static_cast<double>(cases.size()), cases[first].op->name);
    const bool any = std::any_of(judges.begin(), judges.end(), [](OpJudge& j) { return j.runs(); });
    if (any) run_group(judges, *cases[first].op, cases[first].fill, options);
    for (std::size_t i = 0; i < places.size(); ++i) {
      results[places[i]] = judges[i].result();
      if (options.finished) options.finished(Span<const Result>(&results[places[i]], 1));
    }
    finished += static_cast<double>(places.size());
  }
  return results;
}

}  // namespace zeroproof::verification
