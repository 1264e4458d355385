#pragma once
// One rank of L-BFGS. lbfgs.cpp checks the setup; the recursion is in lbfgs_memory.hpp.

#include <optional>

#include "reference/lbfgs/lbfgs_memory.hpp"

namespace zeroproof::reference {

class Lbfgs final : public LbfgsOptimizer {
 public:
  explicit Lbfgs(const LbfgsSetup& setup);

  void load_state(const LbfgsState& full) override;
  LbfgsState state() const override;
  LbfgsReport step(Closure& closure) override;

 private:
  /// An evaluation is valid if f and all of g are finite; max_abs is that of g.
  struct Evaluation {
    double f = 0;
    double max_abs = 0;
    bool good() const;
  };
  /// The reason why a step ended early, if it did.
  using Ended = std::optional<LbfgsEnd>;

  void check_state(const LbfgsState& full) const;

  LbfgsEnd run(Closure& closure);
  Ended iterate(Closure& closure);
  Evaluation evaluate(Closure& closure, ShardVector& grad);
  double choose_direction();
  double first_step_length() const;
  void remember_pair();
  Ended move_whole(Closure& closure, double t);
  Ended search(Closure& closure, double t);
  Ended search_strong_wolfe(Closure& closure, double t);
  void try_step(double t);
  void keep(const Evaluation& evaluation);
  LbfgsEnd give_up(LbfgsEnd end);
  Ended after_move(double f_before) const;
  void drop_memory();

  LbfgsSetup setup_;
  std::int64_t max_eval_;
  ShardVectors vectors_;
  bool loaded_ = false;

  // The state of R21.
  ShardVector x_, grad_before_, move_;
  LbfgsMemory memory_;
  bool pending_ = false;
  bool started_ = false;
  std::int64_t iterations_ = 0;
  std::int64_t evaluations_ = 0;

  // Of the current step: f and g at x_, or during a line search at x_before_.
  ShardVector g_, trial_grad_, d_, x_before_;
  double f_ = 0;
  double max_abs_grad_ = 0;
  LbfgsReport report_;
};

}  // namespace zeroproof::reference
