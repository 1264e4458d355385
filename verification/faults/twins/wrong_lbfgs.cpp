#include "verification/faults/twins/wrong_lbfgs.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

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
  std::vector<float> parts(static_cast<std::size_t>(comm.world_size()));
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
      x_(vectors_.make()),
      x_before_(vectors_.make()),
      g_(vectors_.make()),
      g_before_(vectors_.make()),
      d_(vectors_.make()),
      move_(vectors_.make()) {}

void WrongLbfgs::load_state(const LbfgsState& full) {
  const auto load = [&](Span<const float> from, const GuardedBuffer& to) {
    for (const Piece& piece : pieces_) {
      std::copy_n(from.begin() + piece.global_begin, piece.numel, to.as<float>().begin() + piece.local_begin);
    }
  };
  load(full.master, x_);
  if (full.pending) {
    load(full.grad_before, g_before_);
    load(full.move, move_);
  }
  pairs_.clear();
  for (std::size_t i = 0; i < full.rho.size(); ++i) {
    pairs_.push_back({vectors_.make(), vectors_.make(), full.rho[i]});
    load(full.steps[i], pairs_.back().s);
    load(full.grad_changes[i], pairs_.back().y);
  }
  h_ = full.h;
  pending_ = full.pending;
  started_ = full.started;
  iterations_ = full.iterations;
  evaluations_ = full.evaluations;
}

LbfgsState WrongLbfgs::state() const {
  LbfgsState state;
  state.master = x_.as<float>();
  if (pending_) {
    state.grad_before = g_before_.as<float>();
    state.move = move_.as<float>();
  }
  for (const cuda::Pair& pair : pairs_) {
    state.steps.emplace_back(pair.s.as<float>());
    state.grad_changes.emplace_back(pair.y.as<float>());
    state.rho.push_back(pair.rho);
  }
  state.h = h_;
  state.pending = pending_;
  state.started = started_;
  state.iterations = iterations_;
  state.evaluations = evaluations_;
  return state;
}

double WrongLbfgs::dot(const GuardedBuffer& a, const GuardedBuffer& b) const {
  if (wrong_.fp32_dots) return fp32_dot(*setup_.comm, a.as<float>(), b.as<float>());
  return vectors_.dot(a, b);
}

bool WrongLbfgs::evaluate(Closure& closure, LbfgsReport& report) {
  g_.poison();
  loss_ = closure.evaluate(x_.as<float>(), g_.as<float>());
  ++report.evaluations;
  ++evaluations_;
  max_abs_grad_ = vectors_.max_abs(g_);
  return std::isfinite(loss_) && std::isfinite(max_abs_grad_);
}

LbfgsReport WrongLbfgs::step(Closure& closure) {
  LbfgsReport report;
  report.end = run(closure, report);
  return report;
}

LbfgsEnd WrongLbfgs::run(Closure& closure, LbfgsReport& report) {
  const LbfgsHyper& hyper = setup_.hyper;
  const std::int64_t max_eval = hyper.max_eval.value_or(std::max<std::int64_t>(5 * hyper.max_iter / 4, 1));
  const bool good = evaluate(closure, report);
  report.first_loss = report.loss = loss_;
  report.max_abs_grad = max_abs_grad_;
  if (!good) return LbfgsEnd::nonfinite;
  if (max_abs_grad_ <= hyper.tolerance_grad) return LbfgsEnd::gradient;
  for (;;) {
    const std::int64_t not_counted = wrong_.counts_per_iteration ? report.evaluations : 0;
    ++report.iterations;
    ++iterations_;
    double t = hyper.lr;
    if (!started_) {
      t = first_direction();
    } else {
      if (wrong_.direction_before_pair) find_direction();
      store_pair(report);
      if (!wrong_.direction_before_pair) find_direction();
    }
    vectors_.copy(g_, g_before_);
    const double gtd = report.gtd = dot(g_, d_);
    if (!std::isfinite(gtd)) {
      drop_memory();
      return LbfgsEnd::nonfinite;
    }
    if (!(gtd <= -hyper.tolerance_change)) {
      pending_ = pending_ || wrong_.remembers_unmade_moves;
      return LbfgsEnd::no_descent;
    }
    const double loss_before = loss_;
    vectors_.copy(x_, x_before_);
    if (!move(closure, report, t, gtd)) return give_up();
    pending_ = true;
    if (report.iterations == hyper.max_iter) return LbfgsEnd::max_iter;
    if (report.evaluations - not_counted >= max_eval) return LbfgsEnd::max_eval;
    if (max_abs_grad_ <= hyper.tolerance_grad) return LbfgsEnd::gradient;
    if (vectors_.max_abs(move_) <= hyper.tolerance_change) return LbfgsEnd::step;
    if (std::fabs(loss_ - loss_before) < hyper.tolerance_change) return LbfgsEnd::loss;
  }
}

/// Steepest descent; returns how far.
double WrongLbfgs::first_direction() {
  vectors_.each(d_, g_, g_, [](float g, float) { return negated(g); });
  started_ = true;
  return std::min(1.0, 1 / vectors_.sum_abs(g_)) * setup_.hyper.lr;
}

void WrongLbfgs::store_pair(LbfgsReport& report) {
  if (!std::exchange(pending_, false)) return;
  GuardedBuffer y = vectors_.make();
  const GuardedBuffer& before = wrong_.aliases_old_gradient ? g_ : g_before_;
  vectors_.each(y, g_, before, [](float g, float old) { return g - old; });
  const double ys = dot(y, move_);
  const double yy = dot(y, y);
  const bool curved = ys > 1e-10 || wrong_.stores_any_curvature;
  if (!curved || !std::isfinite(ys) || !std::isfinite(yy)) {
    ++report.pairs_skipped;
    return;
  }
  if (static_cast<std::int64_t>(pairs_.size()) == setup_.hyper.history_size) {
    pairs_.erase(wrong_.removes_newest ? pairs_.end() - 1 : pairs_.begin());
  }
  pairs_.push_back({std::exchange(move_, vectors_.make()), std::move(y), 1 / ys});
  const cuda::Pair& oldest = pairs_.front();
  h_ = wrong_.h_of_oldest ? dot(oldest.y, oldest.s) / dot(oldest.y, oldest.y) : ys / yy;
  ++report.pairs_stored;
}

void WrongLbfgs::find_direction() {
  vectors_.each(d_, g_, g_, [](float g, float) { return negated(g); });
  const auto add = [&](double factor, const GuardedBuffer& v) {
    const auto a = static_cast<float>(factor);
    vectors_.each(d_, d_, v, [a](float q, float vi) {
      const float p = a * vi;
      return q + p;
    });
  };
  std::vector<double> al(pairs_.size());
  for (std::size_t i = pairs_.size(); i-- > 0;) {
    al[i] = dot(pairs_[i].s, d_) * pairs_[i].rho;
    add(-al[i], pairs_[i].y);
  }
  const auto h = static_cast<float>(h_);
  vectors_.each(d_, d_, d_, [h](float q, float) { return h * q; });
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const double be = dot(pairs_[i].y, d_) * pairs_[i].rho;
    add(wrong_.second_loop_adds_al ? al[i] : al[i] - be, pairs_[i].s);
  }
}

void WrongLbfgs::move_by(double t) {
  const auto a = static_cast<float>(t);
  vectors_.each(move_, d_, d_, [a](float d, float) { return a * d; });
  vectors_.each(x_, x_before_, move_, [](float x, float m) { return x + m; });
}

/// One move, searched for or not. False: there is none to keep.
bool WrongLbfgs::move(Closure& closure, LbfgsReport& report, double t, double gtd) {
  const LbfgsHyper& hyper = setup_.hyper;
  const bool searches = hyper.line_search == LineSearch::armijo;
  const double from = loss_;
  for (std::int64_t trial = 0; trial < (searches ? hyper.max_ls : 1); ++trial) {
    if (wrong_.trials_accumulate) vectors_.copy(x_, x_before_);
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
    vectors_.each(x_, x_, move_, [](float x, float m) { return x - m; });
  } else if (!wrong_.keeps_x) {
    vectors_.copy(x_before_, x_);
  }
  if (!wrong_.keeps_memory) drop_memory();
  return setup_.hyper.line_search == LineSearch::armijo ? LbfgsEnd::line_search : LbfgsEnd::nonfinite;
}

void WrongLbfgs::drop_memory() {
  pairs_.clear();
  pending_ = started_ = false;
  h_ = 1;
}

}  // namespace zeroproof::verification
