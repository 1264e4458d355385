#include "reference/lbfgs/lbfgs_optimizer.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/comm/agreement.hpp"
#include "common/step/setup_agreement.hpp"
#include "reference/checks.hpp"
#include "reference/lbfgs/strong_wolfe.hpp"

namespace zeroproof::reference {
namespace {

std::uint64_t bits_of(double value) {
  return std::isnan(value) ? 0x7FFFFFFFFFFFFFFFU : std::bit_cast<std::uint64_t>(value);  // R9
}

}  // namespace

bool Lbfgs::Evaluation::good() const { return std::isfinite(f) && std::isfinite(max_abs); }

Lbfgs::Lbfgs(const LbfgsSetup& setup)
    : setup_(setup),
      max_eval_(setup.hyper.max_eval.value_or(setup.hyper.max_iter + setup.hyper.max_iter / 4)),
      vectors_(setup) {}

LbfgsReport Lbfgs::step(Closure& closure) {
  ZP_CHECK(loaded_, ErrorCode::invalid_argument, "step() was called before load_state()",
           "L-BFGS has no starting point", "call load_state on every rank first");
  require_same_setup(setup_, state());  // other setups would take other branches
  report_ = {};
  g_ = trial_grad_ = d_ = x_before_ = vectors_.make();
  const std::int64_t counted = closure.evaluations();
  report_.end = run(closure);
  const std::uint64_t in_step = static_cast<std::uint64_t>(closure.evaluations() - counted);
  require_agreement(*setup_.comm, in_step, "the numbers of evaluations in this step",
                    "an evaluation is collective",
                    "call the closure only through the optimizer, on every rank");
  report_.loss = f_;
  report_.max_abs_grad = max_abs_grad_;
  return report_;
}

LbfgsEnd Lbfgs::run(Closure& closure) {
  const Evaluation first = evaluate(closure, g_);
  report_.first_loss = f_ = first.f;
  max_abs_grad_ = first.max_abs;
  if (!first.good()) return LbfgsEnd::nonfinite;
  if (max_abs_grad_ <= setup_.hyper.tolerance_grad) return LbfgsEnd::gradient;
  for (;;) {
    if (const Ended ended = iterate(closure)) return *ended;
  }
}

Lbfgs::Evaluation Lbfgs::evaluate(Closure& closure, ShardVector& grad) {
  grad = vectors_.make();
  Evaluation result;
  result.f = closure.evaluate(x_, grad);
  evaluations_ += 1;
  report_.evaluations += 1;
  const std::uint64_t f_bits = bits_of(result.f);
  require_agreement(
      *setup_.comm, f_bits, "the losses", "every decision of L-BFGS depends on the loss",
      "gather the losses of all micro-batches on every rank and add them in one order");
  result.max_abs = vectors_.max_abs(grad);
  return result;
}

Lbfgs::Ended Lbfgs::iterate(Closure& closure) {
  report_.iterations += 1;
  iterations_ += 1;
  const double t = choose_direction();
  grad_before_ = g_;
  const double gtd = report_.gtd = vectors_.dot(g_, d_);
  if (!std::isfinite(gtd)) {
    drop_memory();
    return LbfgsEnd::nonfinite;
  }
  if (!(gtd <= -setup_.hyper.tolerance_change)) return LbfgsEnd::no_descent;

  x_before_ = x_;
  const double f_before = f_;
  const LineSearch kind = setup_.hyper.line_search;
  const Ended ended = kind == LineSearch::none     ? move_whole(closure, t)
                      : kind == LineSearch::armijo ? search(closure, t)
                                                   : search_strong_wolfe(closure, t);
  if (ended) return ended;
  pending_ = true;
  return after_move(f_before);
}

double Lbfgs::choose_direction() {
  if (!started_) {
    started_ = true;
    vectors_.negate(g_, d_);
    return first_step_length();
  }
  if (pending_) remember_pair();
  d_ = memory_.direction(vectors_, g_);
  return setup_.hyper.lr;
}

/// [LBFGS:first]
double Lbfgs::first_step_length() const {
  const double u = 1 / vectors_.sum_abs(g_);
  const double v = u < 1 ? u : 1;
  return v * setup_.hyper.lr;
}

void Lbfgs::remember_pair() {
  pending_ = false;
  ShardVector y = vectors_.make();
  vectors_.subtract(g_, grad_before_, y);
  const bool stored = memory_.remember(vectors_, move_, std::move(y));
  (stored ? report_.pairs_stored : report_.pairs_skipped) += 1;
}

void Lbfgs::try_step(double t) {
  vectors_.multiply(static_cast<float>(t), d_, move_);
  vectors_.add(x_before_, move_, x_);
}

Lbfgs::Ended Lbfgs::move_whole(Closure& closure, double t) {
  try_step(t);
  if (report_.iterations < setup_.hyper.max_iter) {
    const Evaluation there = evaluate(closure, trial_grad_);
    if (!there.good()) return give_up(LbfgsEnd::nonfinite);
    keep(there);
  }
  report_.step_length = t;
  return {};
}

/// Backtracking by halves until f decreases sufficiently [LBFGS:armijo].
Lbfgs::Ended Lbfgs::search(Closure& closure, double t) {
  for (std::int64_t trial = 0; trial < setup_.hyper.max_ls; ++trial) {
    try_step(t);
    const Evaluation there = evaluate(closure, trial_grad_);
    const double u = 1e-4 * t;
    const double v = u * report_.gtd;
    const double w = f_ + v;
    if (there.good() && there.f <= w) {
      keep(there);
      report_.step_length = t;
      return {};
    }
    t = 0.5 * t;
  }
  return give_up(LbfgsEnd::line_search);
}

/// Until f decreases sufficiently and the slope is small [LBFGS:wolfe].
Lbfgs::Ended Lbfgs::search_strong_wolfe(Closure& closure, double t) {
  const auto trial = [&](double at) {
    try_step(at);
    LineTrial there{at, 0, 0, true, 0, {}};
    const Evaluation evaluation = evaluate(closure, there.g);
    there.f = evaluation.f;
    there.max_abs = evaluation.max_abs;
    there.slope = vectors_.dot(there.g, d_);
    there.good = evaluation.good() && std::isfinite(there.slope);
    if (!there.good) there.f = std::numeric_limits<double>::infinity();
    return there;
  };
  const LineTrial start{0, f_, report_.gtd, true, max_abs_grad_, g_};
  LineTrial taken = strong_wolfe(
      start, t, {vectors_.max_abs(d_), setup_.hyper.tolerance_change, setup_.hyper.max_ls}, trial);
  if (taken.t == 0) return give_up(LbfgsEnd::line_search);
  try_step(taken.t);  // the last trial may be a different one
  f_ = taken.f;
  max_abs_grad_ = taken.max_abs;
  g_ = std::move(taken.g);
  report_.step_length = taken.t;
  return {};
}

/// x remains the last evaluated point.
void Lbfgs::keep(const Evaluation& evaluation) {
  f_ = evaluation.f;
  max_abs_grad_ = evaluation.max_abs;
  std::swap(g_, trial_grad_);
}

LbfgsEnd Lbfgs::give_up(LbfgsEnd end) {
  x_ = x_before_;
  drop_memory();
  return end;
}

void Lbfgs::drop_memory() {
  memory_.drop();
  pending_ = started_ = false;
}

Lbfgs::Ended Lbfgs::after_move(double f_before) const {
  const LbfgsHyper& hyper = setup_.hyper;
  if (report_.iterations == hyper.max_iter) return LbfgsEnd::max_iter;
  if (report_.evaluations >= max_eval_) return LbfgsEnd::max_eval;
  if (max_abs_grad_ <= hyper.tolerance_grad) return LbfgsEnd::gradient;
  if (vectors_.max_abs(move_) <= hyper.tolerance_change) return LbfgsEnd::step;
  if (std::fabs(f_ - f_before) < hyper.tolerance_change) return LbfgsEnd::loss;
  return {};
}

void Lbfgs::check_state(const LbfgsState& full) const {
  const std::size_t numel = static_cast<std::size_t>(setup_.layout->padded_numel());
  const char* const what = "loading the state of L-BFGS";
  check_same_numel(what, "the layout", numel, "master", full.master.size());
  const std::size_t of_move = full.pending ? numel : 0;
  check_same_numel(what, "the state", of_move, "grad_before", full.grad_before.size());
  check_same_numel(what, "the state", of_move, "move", full.move.size());
  check_same_numel(what, "rho", full.rho.size(), "steps", full.steps.size());
  check_same_numel(what, "rho", full.rho.size(), "grad_changes", full.grad_changes.size());
  for (const Span<const float> s : full.steps)
    check_same_numel(what, "the layout", numel, "a step", s.size());
  for (const Span<const float> y : full.grad_changes) {
    check_same_numel(what, "the layout", numel, "a gradient change", y.size());
  }
  ZP_CHECK(static_cast<std::int64_t>(full.rho.size()) <= setup_.hyper.history_size,
           ErrorCode::invalid_argument,
           "the state of L-BFGS has " + std::to_string(full.rho.size()) +
               " pairs, history_size is " + std::to_string(setup_.hyper.history_size),
           "fewer pairs would change the next direction",
           "load with the history_size of the run that saved it");
  ZP_CHECK(full.iterations >= 0 && full.evaluations >= 0, ErrorCode::invalid_argument,
           "the state of L-BFGS counts " + std::to_string(full.iterations) + " iterations and " +
               std::to_string(full.evaluations) + " evaluations",
           "counts are not negative", "load a state that L-BFGS has saved");
}

void Lbfgs::load_state(const LbfgsState& full) {
  check_state(full);
  x_ = vectors_.shard_of(full.master);
  grad_before_ = full.pending ? vectors_.shard_of(full.grad_before) : vectors_.make();
  move_ = full.pending ? vectors_.shard_of(full.move) : vectors_.make();
  std::deque<LbfgsPair> pairs;
  for (std::size_t i = 0; i < full.rho.size(); ++i) {
    pairs.push_back(
        {vectors_.shard_of(full.steps[i]), vectors_.shard_of(full.grad_changes[i]), full.rho[i]});
  }
  memory_ = LbfgsMemory(setup_.hyper.history_size, std::move(pairs), full.h);
  pending_ = full.pending;
  started_ = full.started;
  iterations_ = full.iterations;
  evaluations_ = full.evaluations;
  loaded_ = true;
}

LbfgsState Lbfgs::state() const {
  LbfgsState result;
  result.master = x_;
  if (pending_) {
    result.grad_before = grad_before_;
    result.move = move_;
  }
  for (const LbfgsPair& pair : memory_.pairs()) {
    result.steps.push_back(pair.s);
    result.grad_changes.push_back(pair.y);
    result.rho.push_back(pair.rho);
  }
  result.h = memory_.h();
  result.pending = pending_;
  result.started = started_;
  result.iterations = iterations_;
  result.evaluations = evaluations_;
  return result;
}

}  // namespace zeroproof::reference
