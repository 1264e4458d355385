#include "cuda/lbfgs/lbfgs.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/fpenv.hpp"
#include "common/comm/agreement.hpp"
#include "common/step/setup_agreement.hpp"
#include "cuda/host/gradients/tree_stack.hpp"
#include "cuda/lbfgs/production_lbfgs.hpp"
#include "cuda/lbfgs/wolfe_search.hpp"

namespace zeroproof::cuda {
namespace {

constexpr double smallest_curvature = 1e-10;
constexpr double sufficient_decrease = 1e-4;

float negated(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) ^ 0x80000000U);
}

}  // namespace

bool ProductionLbfgs::evaluate(Closure& closure, LbfgsReport& report) {
  grad_.poison();
  loss_ = closure.evaluate(memory_.master.as<float>(), grad_.as<float>());
  ++report.evaluations;
  ++memory_.evaluations;
  const double same = std::isnan(loss_) ? std::numeric_limits<double>::quiet_NaN() : loss_;
  require_agreement(*setup_.comm, std::bit_cast<std::uint64_t>(same), "the losses of an evaluation",
                    "f must have the same bits on all ranks",
                    "gather the losses and add them in a fixed order");
  max_abs_grad_ = vectors_.max_abs(grad_);
  return std::isfinite(loss_) && std::isfinite(max_abs_grad_);
}

LbfgsReport ProductionLbfgs::step(Closure& closure) {
  require_fp_environment("L-BFGS rank " + std::to_string(setup_.comm->rank()));
  ZP_CHECK(loaded_, ErrorCode::invalid_argument, "a step of L-BFGS has no loaded state",
           "the first point is part of the state", "call load_state first");
  require_same_setup(setup_, state());
  const std::int64_t counted_before = closure.evaluations();
  LbfgsReport report;
  report.end = run(closure, report);
  require_agreement(*setup_.comm,
                    static_cast<std::uint64_t>(closure.evaluations() - counted_before),
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
    ++report.iterations;
    ++memory_.iterations;
    double t = hyper.lr;
    if (!memory_.started) {
      vectors_.each(direction_, grad_, grad_, [](float g, float) { return negated(g); });
      memory_.started = true;
      const double u = 1 / vectors_.sum_abs(grad_);
      t = (u < 1 ? u : 1) * hyper.lr;
    } else {
      remember_pair(report);
      find_direction();
    }
    vectors_.copy(grad_, memory_.grad_before);
    const double gtd = report.gtd = vectors_.dot(grad_, direction_);
    if (!std::isfinite(gtd)) {
      memory_.forget();
      return LbfgsEnd::nonfinite;
    }
    if (!(gtd <= -hyper.tolerance_change)) return LbfgsEnd::no_descent;

    const double loss_before = loss_;
    const bool last = report.iterations == hyper.max_iter;
    vectors_.copy(memory_.master, before_);
    if (!move(closure, report, t, last)) {
      vectors_.copy(before_, memory_.master);
      memory_.forget();
      return hyper.line_search == LineSearch::none ? LbfgsEnd::nonfinite : LbfgsEnd::line_search;
    }
    memory_.pending = true;
    if (last) return LbfgsEnd::max_iter;
    if (report.evaluations >= max_eval_) return LbfgsEnd::max_eval;
    if (max_abs_grad_ <= hyper.tolerance_grad) return LbfgsEnd::gradient;
    if (vectors_.max_abs(memory_.move) <= hyper.tolerance_change) return LbfgsEnd::step;
    if (std::fabs(loss_ - loss_before) < hyper.tolerance_change) return LbfgsEnd::loss;
  }
}

void ProductionLbfgs::remember_pair(LbfgsReport& report) {
  if (!memory_.pending) return;
  memory_.pending = false;
  GuardedBuffer y = vectors_.make();
  vectors_.each(y, grad_, memory_.grad_before, [](float g, float before) { return g - before; });
  const double ys = vectors_.dot(y, memory_.move);
  const double yy = vectors_.dot(y, y);
  if (!(ys > smallest_curvature) || !std::isfinite(ys) || !std::isfinite(yy)) {
    ++report.pairs_skipped;
    return;
  }
  if (static_cast<std::int64_t>(memory_.pairs.size()) == setup_.hyper.history_size) {
    memory_.pairs.erase(memory_.pairs.begin());
  }
  memory_.pairs.push_back({std::exchange(memory_.move, vectors_.make()), std::move(y), 1 / ys});
  memory_.h = ys / yy;
  ++report.pairs_stored;
}

void ProductionLbfgs::find_direction() {
  GuardedBuffer& q = direction_;
  vectors_.each(q, grad_, grad_, [](float g, float) { return negated(g); });
  std::vector<double> al(memory_.pairs.size());
  for (std::size_t i = memory_.pairs.size(); i-- > 0;) {
    al[i] = vectors_.dot(memory_.pairs[i].s, q) * memory_.pairs[i].rho;
    const auto a = static_cast<float>(al[i]);
    vectors_.each(q, q, memory_.pairs[i].y, [a](float qi, float yi) {
      const float p = a * yi;
      return qi - p;
    });
  }
  const auto c = static_cast<float>(memory_.h);
  vectors_.each(q, q, q, [c](float qi, float) { return c * qi; });
  for (std::size_t i = 0; i < memory_.pairs.size(); ++i) {
    const double be = vectors_.dot(memory_.pairs[i].y, q) * memory_.pairs[i].rho;
    const auto b = static_cast<float>(al[i] - be);
    vectors_.each(q, q, memory_.pairs[i].s, [b](float qi, float si) {
      const float p = b * si;
      return qi + p;
    });
  }
}

void ProductionLbfgs::move_by(double t) {
  const auto a = static_cast<float>(t);
  vectors_.each(memory_.move, direction_, direction_, [a](float d, float) { return a * d; });
  vectors_.each(memory_.master, before_, memory_.move, [](float x, float m) { return x + m; });
}

void ProductionLbfgs::keep(LbfgsReport& report, double t) {
  report.loss = loss_;
  report.max_abs_grad = max_abs_grad_;
  report.step_length = t;
}

bool ProductionLbfgs::move_without_search(Closure& closure, LbfgsReport& report, double t,
                                          bool last) {
  move_by(t);
  if (!last && !evaluate(closure, report)) return false;
  keep(report, t);
  return true;
}

bool ProductionLbfgs::search(Closure& closure, LbfgsReport& report, double t, double gtd) {
  const double from = loss_;
  for (std::int64_t trial = 0; trial < setup_.hyper.max_ls; ++trial) {
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

bool ProductionLbfgs::move(Closure& closure, LbfgsReport& report, double t, bool last) {
  switch (setup_.hyper.line_search) {
    case LineSearch::armijo:
      return search(closure, report, t, report.gtd);
    case LineSearch::strong_wolfe:
      return search_wolfe(closure, report, t);
    case LineSearch::none:
      break;
  }
  return move_without_search(closure, report, t, last);
}

/// Gradients of the points that the search may still take are in slots; the start uses the first
/// one.
bool ProductionLbfgs::search_wolfe(Closure& closure, LbfgsReport& report, double t) {
  std::vector<GuardedBuffer> grads;
  for (int slot = 0; slot < WolfeSearch::slots; ++slot) grads.push_back(vectors_.make());
  const double from = loss_;
  WolfeSearch search({0, from, report.gtd, true, 0}, t, vectors_.max_abs(direction_),
                     setup_.hyper.tolerance_change, setup_.hyper.max_ls);
  while (const std::optional<double> at = search.next()) {
    move_by(*at);
    WolfePoint point{*at, 0, 0, evaluate(closure, report), search.free_slot()};
    point.s = vectors_.dot(grad_, direction_);
    point.good = point.good && std::isfinite(point.s);
    point.f = point.good ? loss_ : std::numeric_limits<double>::infinity();
    vectors_.copy(grad_, grads[point.slot]);
    search.answer(point);
  }
  const WolfePoint& taken = search.taken();
  if (taken.t == 0) return false;
  move_by(taken.t);
  vectors_.copy(grads[taken.slot], grad_);
  loss_ = taken.f;
  max_abs_grad_ = vectors_.max_abs(grad_);
  keep(report, taken.t);
  return true;
}

double mean_loss(Span<const double> losses, std::int64_t divisor) {
  ZP_CHECK(!losses.empty() && divisor >= 1 && divisor < std::int64_t{1} << 53,
           ErrorCode::invalid_argument,
           std::to_string(losses.size()) + " losses have the divisor " + std::to_string(divisor),
           "their mean is the value of the closure",
           "pass at least one loss and a divisor from 1 to 2^53 - 1");
  host::TreeStack<double> stack([](double& below, double& top) { below = below + top; });
  for (std::size_t j = 0; j < losses.size(); ++j)
    stack.push({0, static_cast<std::int64_t>(j)}, losses[j]);
  return stack.fold() / static_cast<double>(divisor);
}

std::unique_ptr<LbfgsOptimizer> make_lbfgs(const LbfgsSetup& setup) {
  return std::make_unique<ProductionLbfgs>(setup);
}

namespace {

bool in_range(std::int64_t value, std::int64_t largest) { return value >= 1 && value <= largest; }

void check_hyper(const LbfgsHyper& h) {
  const auto require = [](bool ok, const std::string& problem, const std::string& why,
                          const std::string& remedy) {
    ZP_CHECK(ok, ErrorCode::invalid_argument, problem, why, remedy);
  };
  const auto lr = static_cast<float>(h.lr);
  require(std::isfinite(h.lr) && lr >= 0x1p-126F && std::isfinite(lr),
          "L-BFGS has lr " + std::to_string(h.lr), "every move is multiplied by it in fp32",
          "use a normal positive fp32 number");
  for (const double tolerance : {h.tolerance_grad, h.tolerance_change}) {
    require(std::isfinite(tolerance) && tolerance >= 0,
            "L-BFGS has a tolerance of " + std::to_string(tolerance),
            "a step ends when a value is at most the tolerance",
            "use a finite number of 0 or more");
  }
  constexpr std::int64_t largest = (std::int64_t{1} << 31) - 1;
  require(in_range(h.max_iter, largest) && in_range(h.max_eval.value_or(1), largest) &&
              in_range(h.history_size, largest) && in_range(h.max_ls, 100),
          "L-BFGS has a count that is out of range",
          "max_iter, max_eval, history_size and max_ls limit the work of a step",
          "use 1 to 2147483647, and 1 to 100 for max_ls");
}

}  // namespace

LbfgsSetup validate(const LbfgsSetup& setup) {
  ZP_CHECK(setup.layout != nullptr && setup.shards != nullptr && setup.comm != nullptr,
           ErrorCode::invalid_argument,
           "the setup of L-BFGS lacks a layout, a shard map or a communicator",
           "each rank updates its shard", "fill in all three");
  ZP_CHECK(
      setup.shards->world_size() == setup.comm->world_size() && setup.shards->covers(*setup.layout),
      ErrorCode::invalid_argument,
      "the shard map is for " + std::to_string(setup.shards->world_size()) + " ranks and " +
          std::to_string(setup.shards->padded_numel()) + " elements, the run has " +
          std::to_string(setup.comm->world_size()) + " and " +
          std::to_string(setup.layout->padded_numel()),
      "every element needs one owner", "build the map for this layout and world");
  check_hyper(setup.hyper);
  return setup;
}

void ProductionLbfgs::load_state(const LbfgsState& full) {
  const auto require = [](bool ok, const std::string& problem) {
    ZP_CHECK(ok, ErrorCode::invalid_argument, problem, "the run cannot continue from this state",
             "load a state saved by an optimizer with these settings");
  };
  const auto numel = static_cast<std::size_t>(setup_.layout->padded_numel());
  const std::size_t pending_numel = full.pending ? numel : 0;
  require(full.master.size() == numel && full.grad_before.size() == pending_numel &&
              full.move.size() == pending_numel,
          "a vector of the L-BFGS state does not have " + std::to_string(numel) + " elements");
  require(full.steps.size() == full.rho.size() && full.grad_changes.size() == full.rho.size() &&
              static_cast<std::int64_t>(full.rho.size()) <= setup_.hyper.history_size,
          "the L-BFGS state has " + std::to_string(full.rho.size()) +
              " pairs, which do not match the history");
  require(full.iterations >= 0 && full.evaluations >= 0, "the L-BFGS state has a negative count");
  for (const auto* vectors : {&full.steps, &full.grad_changes}) {
    for (const Span<const float> vector : *vectors) {
      require(vector.size() == numel,
              "a pair of the L-BFGS state does not have " + std::to_string(numel) + " elements");
    }
  }
  memory_.load(full, pieces_, vectors_);
  loaded_ = true;
}

}  // namespace zeroproof::cuda
