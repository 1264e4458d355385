#pragma once
// One rank of production L-BFGS.

#include <algorithm>
#include <vector>

#include "common/base/guarded_buffer.hpp"
#include "common/contracts/lbfgs.hpp"
#include "cuda/lbfgs/lbfgs_memory.hpp"
#include "cuda/lbfgs/lbfgs_vectors.hpp"

namespace zeroproof::cuda {

/// Errors: as MakeLbfgsFn.
LbfgsSetup validate(const LbfgsSetup& setup);

class ProductionLbfgs final : public LbfgsOptimizer {
 public:
  explicit ProductionLbfgs(const LbfgsSetup& setup)
      : setup_(validate(setup)),
        pieces_(setup_.layout->pieces(setup_.shards->shard(setup_.comm->rank()))),
        vectors_(pieces_, setup_.shards->shard_numel(setup_.comm->rank()), setup_.exec,
                 *setup_.comm),
        max_eval_(setup_.hyper.max_eval.value_or(
            std::max<std::int64_t>(5 * setup_.hyper.max_iter / 4, 1))),
        memory_(vectors_),
        before_(vectors_.make()),
        grad_(vectors_.make()),
        direction_(vectors_.make()) {}

  void load_state(const LbfgsState& full) override;
  LbfgsState state() const override { return memory_.state(); }
  LbfgsReport step(Closure& closure) override;

 private:
  bool evaluate(Closure& closure, LbfgsReport& report);
  LbfgsEnd run(Closure& closure, LbfgsReport& report);
  void remember_pair(LbfgsReport& report);
  void find_direction();
  void move_by(double t);
  bool move_without_search(Closure& closure, LbfgsReport& report, double t, bool last);
  bool search(Closure& closure, LbfgsReport& report, double t, double gtd);
  bool search_wolfe(Closure& closure, LbfgsReport& report, double t);
  bool move(Closure& closure, LbfgsReport& report, double t, bool last);
  void keep(LbfgsReport& report, double t);

  const LbfgsSetup setup_;
  const std::vector<Piece> pieces_;
  const LbfgsVectors vectors_;
  const std::int64_t max_eval_;
  LbfgsMemory memory_;
  GuardedBuffer before_;  // x at the start of the move
  GuardedBuffer grad_, direction_;
  double loss_ = 0, max_abs_grad_ = 0;  // of the last evaluation
  bool loaded_ = false;
};

}  // namespace zeroproof::cuda
