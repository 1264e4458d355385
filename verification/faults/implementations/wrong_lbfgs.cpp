#include "verification/faults/implementations/wrong_lbfgs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace zeroproof::verification {
namespace {

std::vector<Piece> counted_pieces(const LbfgsSetup& setup, bool counts_padding) {
  const std::int64_t numel = setup.shards->shard_numel(setup.comm->rank());
  if (counts_padding) return {{0, 0, 0, 0, numel}};
  return setup.layout->pieces(setup.shards->shard(setup.comm->rank()));
}

float negated(float x) { return -x; }

/// The sum of all ranks' a . b, every addition in fp32; padding (NaN) adds nothing.
double fp32_dot(Communicator& comm, Span<const float> a, Span<const float> b) {
  float mine = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float product = a[i] * b[i];
    if (!std::isnan(product)) mine += product;
  }
  std::vector<float> parts(comm.world_size());
  std::vector<Span<std::byte>> receive;
  for (float& part : parts) receive.push_back(std::as_writable_bytes(Span<float>(&part, 1)));
  comm.all_gather(std::as_bytes(Span<const float>(&mine, 1)), receive);
  float sum = 0;
  for (const float part : parts) sum += part;
  return sum;
}

}  // namespace

WrongLbfgs::WrongLbfgs(const LbfgsSetup& setup, const LbfgsMistake& mistake)
    : setup_(cuda::validate(setup)),
      wrong_(mistake),
      pieces_(setup_.layout->pieces(setup_.shards->shard(setup_.comm->rank()))),
      vectors_(counted_pieces(setup_, mistake.counts_padding),
               setup_.shards->shard_numel(setup_.comm->rank()), setup_.exec, *setup_.comm),
      memory_(vectors_),
      before_(vectors_.make()),
      grad_(vectors_.make()),
      direction_(vectors_.make()) {}

double WrongLbfgs::dot(const GuardedBuffer& a, const GuardedBuffer& b) const {
  if (wrong_.fp32_dots) return fp32_dot(*setup_.comm, a.as<float>(), b.as<float>());
  return vectors_.dot(a, b);
}

bool WrongLbfgs::evaluate(Closure& closure, LbfgsReport& report) {
  grad_.poison();
  loss_ = closure.evaluate(memory_.master.as<float>(), grad_.as<float>());
  ++report.evaluations;
  ++memory_.evaluations;
  max_abs_grad_ = vectors_.max_abs(grad_);
  return std::isfinite(loss_) && std::isfinite(max_abs_grad_);
}

LbfgsReport WrongLbfgs::step(Closure& closure) {
  LbfgsReport report;
  report.end = run(closure, report);
  return report;
}

LbfgsEnd WrongLbfgs::run(Closure& closure, LbfgsReport& report) {
  const LbfgsHyper& hyper = setup_.hyper;
  const std::int64_t max_eval =
      hyper.max_eval.value_or(std::max<std::int64_t>(5 * hyper.max_iter / 4, 1));
  const bool good = evaluate(closure, report);
  report.first_loss = report.loss = loss_;
  report.max_abs_grad = max_abs_grad_;
  if (!good) return LbfgsEnd::nonfinite;
  if (max_abs_grad_ <= hyper.tolerance_grad) return LbfgsEnd::gradient;
  for (;;) {
    const std::int64_t not_counted = wrong_.counts_per_iteration ? report.evaluations : 0;
    ++report.iterations;
    ++memory_.iterations;
    double t = hyper.lr;
    if (!memory_.started) {
      t = first_direction();
    } else {
      if (wrong_.direction_before_pair) find_direction();
      store_pair(report);
      if (!wrong_.direction_before_pair) find_direction();
    }
    vectors_.copy(grad_, memory_.grad_before);
    const double gtd = report.gtd = dot(grad_, direction_);
    if (!std::isfinite(gtd)) {
      memory_.forget();
      return LbfgsEnd::nonfinite;
    }
    if (!(gtd <= -hyper.tolerance_change)) {
      memory_.pending = memory_.pending || wrong_.remembers_unmade_moves;
      return LbfgsEnd::no_descent;
    }
    const double loss_before = loss_;
    vectors_.copy(memory_.master, before_);
    if (!move(closure, report, t, gtd)) return give_up();
    memory_.pending = true;
    if (report.iterations == hyper.max_iter) return LbfgsEnd::max_iter;
    if (report.evaluations - not_counted >= max_eval) return LbfgsEnd::max_eval;
    if (max_abs_grad_ <= hyper.tolerance_grad) return LbfgsEnd::gradient;
    if (vectors_.max_abs(memory_.move) <= hyper.tolerance_change) return LbfgsEnd::step;
    if (std::fabs(loss_ - loss_before) < hyper.tolerance_change) return LbfgsEnd::loss;
  }
}

/// Steepest descent; returns the step length.
double WrongLbfgs::first_direction() {
  vectors_.each(direction_, grad_, grad_, [](float g, float) { return negated(g); });
  memory_.started = true;
  return std::min(1.0, 1 / vectors_.sum_abs(grad_)) * setup_.hyper.lr;
}

void WrongLbfgs::store_pair(LbfgsReport& report) {
  if (!std::exchange(memory_.pending, false)) return;
  GuardedBuffer y = vectors_.make();
  const GuardedBuffer& before = wrong_.aliases_old_gradient ? grad_ : memory_.grad_before;
  vectors_.each(y, grad_, before, [](float g, float old) { return g - old; });
  const double ys = dot(y, memory_.move);
  const double yy = dot(y, y);
  const bool curved = ys > 1e-10 || wrong_.stores_any_curvature;
  if (!curved || !std::isfinite(ys) || !std::isfinite(yy)) {
    ++report.pairs_skipped;
    return;
  }
  if (static_cast<std::int64_t>(memory_.pairs.size()) == setup_.hyper.history_size) {
    memory_.pairs.erase(wrong_.removes_newest ? memory_.pairs.end() - 1 : memory_.pairs.begin());
  }
  memory_.pairs.push_back({std::exchange(memory_.move, vectors_.make()), std::move(y), 1 / ys});
  const cuda::Pair& oldest = memory_.pairs.front();
  memory_.h = wrong_.h_of_oldest ? dot(oldest.y, oldest.s) / dot(oldest.y, oldest.y) : ys / yy;
  ++report.pairs_stored;
}

void WrongLbfgs::find_direction() {
  vectors_.each(direction_, grad_, grad_, [](float g, float) { return negated(g); });
  const auto add = [&](double factor, const GuardedBuffer& v) {
    const auto a = static_cast<float>(factor);
    vectors_.each(direction_, direction_, v, [a](float q, float vi) {
      const float p = a * vi;
      return q + p;
    });
  };
  std::vector<double> al(memory_.pairs.size());
  for (std::size_t i = memory_.pairs.size(); i-- > 0;) {
    al[i] = dot(memory_.pairs[i].s, direction_) * memory_.pairs[i].rho;
    add(-al[i], memory_.pairs[i].y);
  }
  const auto h = static_cast<float>(memory_.h);
  vectors_.each(direction_, direction_, direction_, [h](float q, float) { return h * q; });
  for (std::size_t i = 0; i < memory_.pairs.size(); ++i) {
    const double be = dot(memory_.pairs[i].y, direction_) * memory_.pairs[i].rho;
    add(wrong_.second_loop_adds_al ? al[i] : al[i] - be, memory_.pairs[i].s);
  }
}

void WrongLbfgs::move_by(double t) {
  const auto a = static_cast<float>(t);
  vectors_.each(memory_.move, direction_, direction_, [a](float d, float) { return a * d; });
  vectors_.each(memory_.master, before_, memory_.move, [](float x, float m) { return x + m; });
}

/// A move by the strong Wolfe search. Every trial's gradient is kept.
bool WrongLbfgs::search(Closure& closure, LbfgsReport& report, double t, double gtd) {
  std::vector<GuardedBuffer> grads;
  const WolfeSettings settings{vectors_.max_abs(direction_), setup_.hyper.tolerance_change,
                               setup_.hyper.max_ls, wrong_.wolfe};
  const WolfeTrial taken = wrong_wolfe({0, loss_, gtd, true, 0}, t, settings, [&](double at) {
    move_by(at);
    WolfeTrial trial{at, 0, 0, evaluate(closure, report), grads.size() + 1};
    trial.s = dot(grad_, direction_);
    trial.good = trial.good && std::isfinite(trial.s);
    trial.f = trial.good ? loss_ : std::numeric_limits<double>::infinity();
    grads.push_back(vectors_.make());
    vectors_.copy(grad_, grads.back());
    return trial;
  });
  if (taken.number == 0) return false;
  if (!wrong_.keeps_last_point) move_by(taken.t);
  if (!wrong_.keeps_last_gradient) vectors_.copy(grads[taken.number - 1], grad_);
  if (!wrong_.keeps_last_loss) loss_ = taken.f;
  report.loss = loss_;
  report.max_abs_grad = max_abs_grad_ = vectors_.max_abs(grad_);
  report.step_length = taken.t;
  return true;
}

/// One move, with or without a search. False: there is no move to keep.
bool WrongLbfgs::move(Closure& closure, LbfgsReport& report, double t, double gtd) {
  const LbfgsHyper& hyper = setup_.hyper;
  if (hyper.line_search == LineSearch::strong_wolfe) return search(closure, report, t, gtd);
  const bool searches = hyper.line_search == LineSearch::armijo;
  const double from = loss_;
  for (std::int64_t trial = 0; trial < (searches ? hyper.max_ls : 1); ++trial) {
    if (wrong_.trials_accumulate) vectors_.copy(memory_.master, before_);
    move_by(t);
    const bool asks = searches || report.iterations != hyper.max_iter;
    const bool good = !asks || evaluate(closure, report);
    const double u = 1e-4 * t;
    const double v = u * gtd;
    if (good && (!searches || loss_ <= from + v)) {
      report.loss = loss_;
      report.max_abs_grad = max_abs_grad_;
      report.step_length = t;
      return true;
    }
    t = 0.5 * t;
  }
  return false;
}

LbfgsEnd WrongLbfgs::give_up() {
  if (wrong_.restores_by_subtraction) {
    vectors_.each(memory_.master, memory_.master, memory_.move,
                  [](float x, float m) { return x - m; });
  } else if (!wrong_.keeps_x) {
    vectors_.copy(before_, memory_.master);
  }
  if (!wrong_.keeps_memory) memory_.forget();
  return setup_.hyper.line_search == LineSearch::none ? LbfgsEnd::nonfinite : LbfgsEnd::line_search;
}

}  // namespace zeroproof::verification
