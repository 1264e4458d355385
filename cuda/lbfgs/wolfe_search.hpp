#pragma once
// The strong Wolfe search of R21 on scalars: finished trials, the next trial, and the accepted one.

#include <cstdint>
#include <optional>

namespace zeroproof::cuda {

/// One step length that was tried.
struct WolfePoint {
  double t = 0, f = 0, s = 0;
  bool good = true;
  int slot = 0;  ///< where the caller stores its gradient
};

/// Returns trials one after another until one is accepted.
class WolfeSearch {
 public:
  static constexpr int slots =
      4;  ///< the start and three trials: two ends, or the last two, and a new one

  WolfeSearch(const WolfePoint& start, double first_t, double max_abs_d, double tolerance_change,
              std::int64_t max_ls)
      : start_(start),
        max_abs_d_(max_abs_d),
        tolerance_change_(tolerance_change),
        max_ls_(max_ls),
        p_(start),
        next_(first_t) {}

  /// The step length to try, or nothing when the search is over.
  std::optional<double> next() const { return over_ ? std::nullopt : std::optional(next_); }
  /// A slot not used by any point that the search still needs.
  int free_slot() const;
  /// The result of the trial returned by next().
  void answer(const WolfePoint& point);
  /// The accepted point once the search is over; the start if no trial is better.
  const WolfePoint& taken() const { return taken_; }

 private:
  bool high(const WolfePoint& p) const;
  bool flat(const WolfePoint& p) const;
  static double cubic(const WolfePoint& p, const WolfePoint& q, double low, double high);
  void bracket(const WolfePoint& q);
  void narrow(const WolfePoint& n);
  void set_ends(const WolfePoint& a, const WolfePoint& b);
  void choose() { best_is_a_ = a_.f <= b_.f; }
  void go_on();
  void take(const WolfePoint& p) { taken_ = p, over_ = true; }

  const WolfePoint start_;
  const double max_abs_d_, tolerance_change_;
  const std::int64_t max_ls_;
  WolfePoint p_;      // bracketing: the trial before the last one
  WolfePoint a_, b_;  // narrowing: the ends
  WolfePoint taken_;
  double next_;
  std::int64_t i_ = -1;  // trials after the first one
  bool narrowing_ = false, best_is_a_ = true, stuck_ = false, over_ = false;
};

}  // namespace zeroproof::cuda
