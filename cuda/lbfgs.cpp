#include "cuda/lbfgs.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "common/base/digest.hpp"
#include "common/base/error.hpp"
#include "common/base/fpenv.hpp"
#include "cuda/faults/fault.hpp"
#include "cuda/host/node_stack.hpp"
#include "cuda/lbfgs_agreement.hpp"
#include "cuda/production_lbfgs.hpp"

namespace zeroproof::cuda {
namespace {

constexpr double smallest_curvature = 1e-10;
constexpr double sufficient_decrease = 1e-4;

float negated(float x) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) ^ 0x80000000U); }

}  // namespace

/// Settings and scalars of the state, as one digest.
void ProductionLbfgs::agree() const {
  const LbfgsHyper& hyper = setup_.hyper;
  Hasher hasher;
  for (const double value : {hyper.lr, hyper.tolerance_grad, hyper.tolerance_change, h_}) hasher.add(value);
  for (const std::int64_t value :
       {hyper.max_iter, max_eval_, hyper.history_size, hyper.max_ls,
        static_cast<std::int64_t>(hyper.line_search), static_cast<std::int64_t>(pairs_.size()),
        static_cast<std::int64_t>(pending_), static_cast<std::int64_t>(started_), iterations_,
        evaluations_}) {
    hasher.add(static_cast<std::uint64_t>(value));
  }
  for (const Pair& pair : pairs_) hasher.add(pair.rho);
  require_agreement(*setup_.comm, hasher.digest().low, "the settings or state scalars",
                    "all ranks must take the same branches", "configure and load all ranks alike");
}

bool ProductionLbfgs::evaluate(Closure& closure, LbfgsReport& report) {
  grad_.poison();
  loss_ = closure.evaluate(master_.as<float>(), grad_.as<float>());
  ++report.evaluations;
  ++evaluations_;
  const double same = std::isnan(loss_) ? std::numeric_limits<double>::quiet_NaN() : loss_;
  require_agreement(*setup_.comm, std::bit_cast<std::uint64_t>(same), "the losses of an evaluation",
                    "f must be the same bits on all ranks", "gather the losses and add them in one order");
  max_abs_grad_ = vectors_.max_abs(grad_);
  return std::isfinite(loss_) && std::isfinite(max_abs_grad_);
}

LbfgsReport ProductionLbfgs::step(Closure& closure) {
  require_fp_environment("L-BFGS rank " + std::to_string(setup_.comm->rank()));
  ZP_CHECK(loaded_, ErrorCode::invalid_argument, "no state was loaded before a step of L-BFGS",
           "there is no point to start from", "call load_state first");
  agree();
  const std::int64_t counted_before = closure.evaluations();
  LbfgsReport report;
  report.end = run(closure, report);
  require_agreement(*setup_.comm, static_cast<std::uint64_t>(closure.evaluations() - counted_before),
                    "the numbers of evaluations", "the ranks' closures are collective calls",
                    "call the closure through the optimizer only");
  return report;
}

LbfgsEnd ProductionLbfgs::run(Closure& closure, LbfgsReport& report) {
  const LbfgsHyper& hyper = setup_.hyper;
  const bool good = evaluate(closure, report);
  report.first_loss = report.loss = loss_;
  report.max_abs_grad = max_abs_grad_;
  if (!good) return LbfgsEnd::nonfinite;
  if (max_abs_grad_ <= hyper.tolerance_grad) return LbfgsEnd::gradient;
  for (;;) {
    const std::int64_t not_counted =
        ZP_FAULT(setup_.exec, "lbfgs-max-eval-per-iteration") ? report.evaluations : 0;
    ++report.iterations;
    ++iterations_;
    double t = hyper.lr;
    if (!started_) {
      vectors_.each(direction_, grad_, grad_, [](float g, float) { return negated(g); });
      started_ = true;
      const double u = 1 / vectors_.sum_abs(grad_);
      t = (u < 1 ? u : 1) * hyper.lr;
    } else if (ZP_FAULT(setup_.exec, "lbfgs-history-one-behind")) {
      find_direction();
      remember_pair(report);
    } else {
      remember_pair(report);
      find_direction();
    }
    vectors_.copy(grad_, grad_before_);
    const double gtd = report.gtd = vectors_.dot(grad_, direction_);
    if (!std::isfinite(gtd)) {
      drop_memory();
      return LbfgsEnd::nonfinite;
    }
    if (!(gtd <= -hyper.tolerance_change)) {
      if (ZP_FAULT(setup_.exec, "lbfgs-unmade-move-remembered")) pending_ = true;
      return LbfgsEnd::no_descent;
    }

    const double loss_before = loss_;
    const bool last = report.iterations == hyper.max_iter;
    vectors_.copy(master_, before_);
    const bool armijo = hyper.line_search == LineSearch::armijo;
    const bool moved =
        armijo ? search(closure, report, t, gtd) : move_without_search(closure, report, t, last);
    if (!moved) {
      const bool keeps = armijo ? ZP_FAULT(setup_.exec, "lbfgs-failed-search-keeps-memory")
                                : ZP_FAULT(setup_.exec, "lbfgs-nonfinite-keeps-memory");
      go_back();
      if (!keeps) drop_memory();
      return armijo ? LbfgsEnd::line_search : LbfgsEnd::nonfinite;
    }
    pending_ = true;
    if (last) return LbfgsEnd::max_iter;
    if (report.evaluations - not_counted >= max_eval_) return LbfgsEnd::max_eval;
    if (max_abs_grad_ <= hyper.tolerance_grad) return LbfgsEnd::gradient;
    if (vectors_.max_abs(move_) <= hyper.tolerance_change) return LbfgsEnd::step;
    if (std::fabs(loss_ - loss_before) < hyper.tolerance_change) return LbfgsEnd::loss;
  }
}

void ProductionLbfgs::remember_pair(LbfgsReport& report) {
  if (!pending_) return;
  pending_ = false;
  GuardedBuffer y = vectors_.make();
  const bool alias = ZP_FAULT(setup_.exec, "lbfgs-old-gradient-aliased");
  vectors_.each(y, grad_, alias ? grad_ : grad_before_, [](float g, float before) { return g - before; });
  const double ys = vectors_.dot(y, move_);
  const double yy = vectors_.dot(y, y);
  const bool curved = ys > smallest_curvature || ZP_FAULT(setup_.exec, "lbfgs-curvature-not-tested");
  if (!curved || !std::isfinite(ys) || !std::isfinite(yy)) {
    ++report.pairs_skipped;
    return;
  }
  if (static_cast<std::int64_t>(pairs_.size()) == setup_.hyper.history_size) {
    pairs_.erase(ZP_FAULT(setup_.exec, "lbfgs-newest-pair-removed") ? pairs_.end() - 1 : pairs_.begin());
  }
  pairs_.push_back({std::exchange(move_, vectors_.make()), std::move(y), 1 / ys});
  h_ = ys / yy;
  if (ZP_FAULT(setup_.exec, "lbfgs-h-of-oldest-pair")) {
    const Pair& oldest = pairs_.front();
    h_ = vectors_.dot(oldest.y, oldest.s) / vectors_.dot(oldest.y, oldest.y);
  }
  ++report.pairs_stored;
}

void ProductionLbfgs::find_direction() {
  GuardedBuffer& q = direction_;
  vectors_.each(q, grad_, grad_, [](float g, float) { return negated(g); });
  std::vector<double> al(pairs_.size());
  for (std::size_t i = pairs_.size(); i-- > 0;) {
    al[i] = vectors_.dot(pairs_[i].s, q) * pairs_[i].rho;
    const auto a = static_cast<float>(al[i]);
    vectors_.each(q, q, pairs_[i].y, [a](float qi, float yi) {
      const float p = a * yi;
      return qi - p;
    });
  }
  const auto c = static_cast<float>(h_);
  vectors_.each(q, q, q, [c](float qi, float) { return c * qi; });
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const double be = vectors_.dot(pairs_[i].y, q) * pairs_[i].rho;
    const double e = ZP_FAULT(setup_.exec, "lbfgs-second-loop-adds-al") ? al[i] : al[i] - be;
    const auto b = static_cast<float>(e);
    vectors_.each(q, q, pairs_[i].s, [b](float qi, float si) {
      const float p = b * si;
      return qi + p;
    });
  }
}

void ProductionLbfgs::move_by(double t) {
  const auto a = static_cast<float>(t);
  vectors_.each(move_, direction_, direction_, [a](float d, float) { return a * d; });
  vectors_.each(master_, before_, move_, [](float x, float m) { return x + m; });
}

void ProductionLbfgs::go_back() {
  if (ZP_FAULT(setup_.exec, "lbfgs-failed-search-keeps-x")) return;
  const bool subtract = ZP_FAULT(setup_.exec, "lbfgs-x-restored-by-subtraction");
  if (subtract) return vectors_.each(master_, master_, move_, [](float x, float m) { return x - m; });
  vectors_.copy(before_, master_);
}

void ProductionLbfgs::keep(LbfgsReport& report, double t) {
  report.loss = loss_;
  report.max_abs_grad = max_abs_grad_;
  report.step_length = t;
}

bool ProductionLbfgs::move_without_search(Closure& closure, LbfgsReport& report, double t, bool last) {
  move_by(t);
  if (!last && !evaluate(closure, report)) return false;
  keep(report, t);
  return true;
}

bool ProductionLbfgs::search(Closure& closure, LbfgsReport& report, double t, double gtd) {
  const double from = loss_;
  for (std::int64_t trial = 0; trial < setup_.hyper.max_ls; ++trial) {
    if (ZP_FAULT(setup_.exec, "lbfgs-trials-accumulate")) vectors_.copy(master_, before_);
    move_by(t);
    const bool good = evaluate(closure, report);
    const double u = sufficient_decrease * t;
    const double v = u * gtd;
    if (good && loss_ <= from + v) {
      keep(report, t);
      return true;
    }
    t = 0.5 * t;
  }
  return false;
}

double mean_loss(Span<const double> losses, std::int64_t divisor) {
  ZP_CHECK(!losses.empty() && divisor >= 1 && divisor < std::int64_t{1} << 53, ErrorCode::invalid_argument,
           std::to_string(losses.size()) + " losses are to be divided by " + std::to_string(divisor),
           "their mean is the value of the closure",
           "pass at least one loss and a divisor from 1 to 2^53 - 1");
  host::NodeStack<double> stack([](double& below, double& top) { below = below + top; });
  for (std::size_t j = 0; j < losses.size(); ++j) stack.push({0, static_cast<std::int64_t>(j)}, losses[j]);
  return stack.fold() / static_cast<double>(divisor);
}

std::unique_ptr<LbfgsOptimizer> make_lbfgs(const LbfgsSetup& setup) {
  return std::make_unique<ProductionLbfgs>(setup);
}

}  // namespace zeroproof::cuda
