// Faults of L-BFGS: production over a wrong group or state, or a wrong implementation.

#include <utility>

#include "cuda/lbfgs/lbfgs.hpp"
#include "verification/faults/implementations/wrong_lbfgs.hpp"
#include "verification/faults/planted/fault_context.hpp"
#include "verification/faults/planted/wrong_groups.hpp"

namespace zeroproof::verification {
namespace {

/// Production over a group in which data is lost.
class Disconnected final : public LbfgsOptimizer {
 public:
  Disconnected(LbfgsSetup setup, IntegerReduce op, std::size_t words)
      : comm_(*setup.comm, op, words) {
    setup.comm = &comm_;
    inner_ = cuda::make_lbfgs(setup);
  }
  void load_state(const LbfgsState& full) override { inner_->load_state(full); }
  LbfgsState state() const override { return inner_->state(); }
  LbfgsReport step(Closure& closure) override { return inner_->step(closure); }

 private:
  OwnWords comm_;
  std::unique_ptr<LbfgsOptimizer> inner_;
};

/// A loaded state lacks the move whose pair is not stored yet.
class PendingLost final : public LbfgsOptimizer {
 public:
  explicit PendingLost(const LbfgsSetup& setup) : inner_(cuda::make_lbfgs(setup)) {}
  void load_state(const LbfgsState& full) override {
    LbfgsState state = full;
    state.pending = false;
    state.grad_before = state.move = {};
    inner_->load_state(state);
  }
  LbfgsState state() const override { return inner_->state(); }
  LbfgsReport step(Closure& closure) override { return inner_->step(closure); }

 private:
  std::unique_ptr<LbfgsOptimizer> inner_;
};

template <class Limbs>
std::unique_ptr<LbfgsOptimizer> own_sums(const LbfgsSetup& setup) {
  return std::make_unique<Disconnected>(setup, IntegerReduce::sum,
                                        sizeof(Limbs) / sizeof(std::uint64_t));
}

}  // namespace

std::unique_ptr<LbfgsOptimizer> wrong_lbfgs(std::string_view fault, const LbfgsSetup& setup) {
  struct Row {
    std::string_view fault;
    LbfgsMistake mistake;
  };
  constexpr Row rows[] = {
      {"lbfgs-padding-counted", {.counts_padding = true}},
      {"lbfgs-dot-in-fp32", {.fp32_dots = true}},
      {"lbfgs-history-one-behind", {.direction_before_pair = true}},
      {"lbfgs-unmade-move-remembered", {.remembers_unmade_moves = true}},
      {"lbfgs-nonfinite-keeps-memory", {.keeps_memory = true}},
      {"lbfgs-failed-search-keeps-memory", {.keeps_memory = true}},
      {"lbfgs-old-gradient-aliased", {.aliases_old_gradient = true}},
      {"lbfgs-curvature-not-tested", {.stores_any_curvature = true}},
      {"lbfgs-newest-pair-removed", {.removes_newest = true}},
      {"lbfgs-h-of-oldest-pair", {.h_of_oldest = true}},
      {"lbfgs-second-loop-adds-al", {.second_loop_adds_al = true}},
      {"lbfgs-failed-search-keeps-x", {.keeps_x = true}},
      {"lbfgs-x-restored-by-subtraction", {.restores_by_subtraction = true}},
      {"lbfgs-trials-accumulate", {.trials_accumulate = true}},
      {"lbfgs-max-eval-per-iteration", {.counts_per_iteration = true}},
      {"lbfgs-wolfe-slope-signed", {.wolfe = WolfeMistake::signed_slope}},
      {"lbfgs-wolfe-bracket-not-moved", {.wolfe = WolfeMistake::bracket_not_moved}},
      {"lbfgs-wolfe-other-root", {.wolfe = WolfeMistake::other_root}},
      {"lbfgs-wolfe-keeps-last-point", {.keeps_last_point = true}},
      {"lbfgs-wolfe-keeps-last-loss", {.keeps_last_loss = true}},
      {"lbfgs-wolfe-keeps-last-gradient", {.keeps_last_gradient = true}}};
  for (const Row& row : rows) {
    if (row.fault == fault) return std::make_unique<WrongLbfgs>(setup, row.mistake);
  }
  if (fault == "lbfgs-dot-of-own-shard") return own_sums<DotLimbs>(setup);
  if (fault == "lbfgs-length-of-own-shard") return own_sums<NormLimbs>(setup);
  if (fault == "lbfgs-max-abs-of-own-shard") {
    return std::make_unique<Disconnected>(setup, IntegerReduce::max, 1);
  }
  if (fault == "lbfgs-pending-lost-on-load") return std::make_unique<PendingLost>(setup);
  return nullptr;
}

}  // namespace zeroproof::verification
