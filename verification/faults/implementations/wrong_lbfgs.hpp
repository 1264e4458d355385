#pragma once
// L-BFGS with faults from public bugs: a second implementation of the recursion of R21 with a
// switch for each fault.

#include <vector>

#include "cuda/lbfgs/lbfgs_memory.hpp"
#include "cuda/lbfgs/lbfgs_vectors.hpp"
#include "cuda/lbfgs/production_lbfgs.hpp"
#include "verification/faults/implementations/wrong_wolfe.hpp"

namespace zeroproof::verification {

/// Switches, one per fault. With none set, the bits are those of production.
struct LbfgsMistake {
  bool counts_padding = false;
  bool fp32_dots = false;
  bool direction_before_pair = false;
  bool remembers_unmade_moves = false;
  bool keeps_memory = false;  ///< after a failed search or a point that is not finite
  bool aliases_old_gradient = false;
  bool stores_any_curvature = false;
  bool removes_newest = false;
  bool h_of_oldest = false;
  bool second_loop_adds_al = false;
  bool keeps_x = false;  ///< at the last trial of a failed search
  bool restores_by_subtraction = false;
  bool trials_accumulate = false;
  bool counts_per_iteration = false;
  WolfeMistake wolfe = WolfeMistake::none;
  // Of the last trial of a strong Wolfe search, where an earlier one is taken.
  bool keeps_last_point = false;
  bool keeps_last_loss = false;
  bool keeps_last_gradient = false;
};

class WrongLbfgs final : public LbfgsOptimizer {
 public:
  WrongLbfgs(const LbfgsSetup& setup, const LbfgsMistake& mistake);

  void load_state(const LbfgsState& full) override { memory_.load(full, pieces_, vectors_); }
  LbfgsState state() const override { return memory_.state(); }
  LbfgsReport step(Closure& closure) override;

 private:
  bool evaluate(Closure& closure, LbfgsReport& report);
  LbfgsEnd run(Closure& closure, LbfgsReport& report);
  double first_direction();
  void store_pair(LbfgsReport& report);
  void find_direction();
  void move_by(double t);
  bool move(Closure& closure, LbfgsReport& report, double t, double gtd);
  bool search(Closure& closure, LbfgsReport& report, double t, double gtd);
  LbfgsEnd give_up();
  double dot(const GuardedBuffer& a, const GuardedBuffer& b) const;

  const LbfgsSetup setup_;
  const LbfgsMistake wrong_;
  const std::vector<Piece> pieces_;
  const cuda::LbfgsVectors vectors_;
  cuda::LbfgsMemory memory_;
  GuardedBuffer before_, grad_, direction_;
  double loss_ = 0, max_abs_grad_ = 0;
};

}  // namespace zeroproof::verification
