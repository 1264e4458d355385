#pragma once
// A second implementation of R21: undistributed, element by element, dot products bit by bit. Slow
// and simple, for bitwise comparison with the reference.

#include <algorithm>
#include <deque>

#include "common/contracts/lbfgs.hpp"
#include "tests/reference/gradients/dot_support.hpp"
#include "tests/reference/lbfgs/lbfgs_support.hpp"

namespace zeroproof::tests {

class PlainLbfgs {
 public:
  PlainLbfgs(const LbfgsHyper& hyper, Problem problem, std::vector<float> start)
      : hyper_(hyper), problem_(std::move(problem)), x(std::move(start)) {}

 private:
  struct Pair {
    std::vector<float> s, y;
    double rho = 0;
  };
  LbfgsHyper hyper_;
  Problem problem_;
  LbfgsReport report_;
  double f_ = 0;
  std::vector<float> g_, d_;

 public:
  std::vector<float> x, grad_before, move;
  std::deque<Pair> pairs;
  double h = 1;
  bool pending = false, started = false;

  LbfgsReport step() {
    report_ = {};
    g_.assign(x.size(), nan32);
    f_ = report_.first_loss = problem_(x, g_);
    report_.evaluations = 1;
    bool ended = true;
    if (!good(f_, g_)) {
      report_.end = LbfgsEnd::nonfinite;
    } else if (largest(g_) <= hyper_.tolerance_grad) {
      report_.end = LbfgsEnd::gradient;
    } else {
      ended = false;
    }
    while (!ended) ended = iterate();
    report_.loss = f_;
    report_.max_abs_grad = largest(g_);
    return report_;
  }

 private:
  static double largest(const std::vector<float>& v) {
    double result = 0;
    for (const float value : v) {
      if (std::isnan(value)) return nan64;
      if (std::fabs(value) > result) result = std::fabs(value);
    }
    return result;
  }
  static bool good(double f, const std::vector<float>& g) {
    return std::isfinite(f) &&
           std::ranges::all_of(g, [](float value) { return std::isfinite(value); });
  }
  bool end(LbfgsEnd why) {
    report_.end = why;
    return true;
  }
  void forget() {
    pairs.clear();
    h = 1;
    pending = started = false;
  }

  bool iterate() {
    report_.iterations += 1;
    double t = hyper_.lr;
    d_ = g_;
    for (float& value : d_) value = -value;
    if (!started) {
      started = true;
      std::vector<float> magnitudes = g_;
      for (float& value : magnitudes) value = std::fabs(value);
      const double inverse = 1.0 / exact_dot(magnitudes, std::vector<float>(x.size(), 1.0F));
      t = (inverse < 1.0 ? inverse : 1.0) * hyper_.lr;
    } else {
      if (pending) store();
      recursion();
    }
    grad_before = g_;
    if (!std::ranges::all_of(d_, [](float value) { return std::isfinite(value); })) {
      report_.gtd = nan64;
      forget();
      return end(LbfgsEnd::nonfinite);
    }
    report_.gtd = exact_dot(g_, d_);
    if (report_.gtd > -hyper_.tolerance_change) return end(LbfgsEnd::no_descent);
    const double f_before = f_;
    if (!travel(t)) {
      forget();
      return end(hyper_.line_search == LineSearch::none ? LbfgsEnd::nonfinite
                                                        : LbfgsEnd::line_search);
    }
    pending = true;
    if (report_.iterations == hyper_.max_iter) return end(LbfgsEnd::max_iter);
    if (report_.evaluations >= hyper_.max_eval.value_or(5 * hyper_.max_iter / 4))
      return end(LbfgsEnd::max_eval);
    if (largest(g_) <= hyper_.tolerance_grad) return end(LbfgsEnd::gradient);
    if (largest(move) <= hyper_.tolerance_change) return end(LbfgsEnd::step);
    if (std::fabs(f_ - f_before) < hyper_.tolerance_change) return end(LbfgsEnd::loss);
    return false;
  }

  void store() {
    pending = false;
    std::vector<float> y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = g_[i] - grad_before[i];
    const double ys = exact_dot(y, move);
    const double yy = exact_dot(y, y);
    if (!(ys > 1e-10)) {
      report_.pairs_skipped += 1;
      return;
    }
    report_.pairs_stored += 1;
    pairs.push_back({move, y, 1.0 / ys});
    if (pairs.size() > static_cast<std::size_t>(hyper_.history_size)) pairs.pop_front();
    h = ys / yy;
  }

  void recursion() {
    std::vector<double> al;
    for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
      al.push_back(exact_dot(pair->s, d_) * pair->rho);
      const float a = static_cast<float>(al.back());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const float p = a * pair->y[i];
        d_[i] = d_[i] - p;
      }
    }
    for (float& value : d_) value = static_cast<float>(h) * value;
    for (const Pair& pair : pairs) {
      const double be = exact_dot(pair.y, d_) * pair.rho;
      const float b = static_cast<float>(al.back() - be);
      al.pop_back();
      for (std::size_t i = 0; i < x.size(); ++i) {
        const float p = b * pair.s[i];
        d_[i] = d_[i] + p;
      }
    }
  }

  /// Returns false if x did not move.
  bool travel(double t) {
    const std::vector<float> from = x;
    const bool search = hyper_.line_search == LineSearch::armijo;
    for (std::int64_t trial = 0; trial < (search ? hyper_.max_ls : 1); ++trial, t *= 0.5) {
      move = d_;
      for (float& value : move) value = static_cast<float>(t) * value;
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = from[i] + move[i];
      if (!search && report_.iterations == hyper_.max_iter) {
        report_.step_length = t;
        return true;
      }
      std::vector<float> g(x.size(), nan32);
      const double f = problem_(x, g);
      report_.evaluations += 1;
      const double slope = (1e-4 * t) * report_.gtd;
      if (good(f, g) && (!search || f <= f_ + slope)) {
        f_ = f;
        g_ = g;
        report_.step_length = t;
        return true;
      }
    }
    x = from;
    return false;
  }
};

}  // namespace zeroproof::tests
