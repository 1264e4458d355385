#pragma once
// Makes one production optimizer wrong in one way: what the harness is tested against. Only compiled into zp_cuda_faults.
// Most faults act at the border of a phase, where a wrong optimizer of that kind would have left the same bits.

#include <memory>
#include <string_view>
#include <vector>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::cuda {

class ProductionOptimizer;

class Saboteur {
 public:
  explicit Saboteur(ProductionOptimizer& victim);
  ~Saboteur();

  /// The setup as the optimizer believes it to be.
  static OptimizerSetup believed(OptimizerSetup setup);

  /// Around every phase, and after load_state. They return false, so that production may ignore them in one way.
  bool before(Phase phase);
  bool after(Phase phase, const LeafSource* leaves);
  bool after_load(const FullState& state);

  /// Each returns whether it took the place of what production does there.
  bool instead_of_update(const Exec& exec, const Piece& piece);
  bool instead_of_gather_after_load() const { return is("Z81-no-gather-after-load"); }
  bool ignores_skip() const { return is("skip-ignored"); }
  bool hides(Phase phase) const { return phase == Phase::cast && is("buffer-hidden"); }

  /// The gradients the optimizer reads instead of the honest ones.
  LeafSource& leaves(LeafSource& honest);

 private:
  class Leaves;
  bool is(std::string_view fault) const;
  void remember();
  void after_prepare(const LeafSource& leaves);
  void after_reduce();
  void after_unscale();
  void after_norm();
  void after_update();
  void after_cast();
  void after_gather();
  void recompute_scalars(std::int64_t divisor, bool one_counter);
  void recompute_scheduled(const ParamGroups& groups, std::int64_t t);
  bool wrong_element_update(const Piece& piece);
  bool update_without_leftover(const Exec& exec, Piece piece);
  void add_tp_parts();
  void swap_params();
  bool owns_nothing() const;

  ProductionOptimizer& victim_;
  std::string_view fault_;
  std::unique_ptr<Leaves> leaves_;

  // What the optimizer held when the phase began.
  std::vector<float> grad_, master_, max_exp_avg_sq_;
  std::vector<float> old_grad_sum_;  // G of the step before
  std::vector<std::byte> param_shard_, param_full_;
  LossScalerState scaler_;
  double grad_norm_ = 0;
  float clip_coef_ = 1;
  std::uint32_t found_inf_ = 0;
  std::uint64_t applied_steps_ = 0;

  std::vector<std::byte> stale_shard_;  // param_shard as it was before the last cast of a step
  std::int64_t skipped_steps_ = 0;
};

}  // namespace zeroproof::cuda
