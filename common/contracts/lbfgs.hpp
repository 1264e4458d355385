#pragma once
// Distributed L-BFGS with a closure (R21): settings, state, and interface of both implementations.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "common/comm/communicator.hpp"
#include "common/contracts/closure.hpp"
#include "common/layout/flat_layout.hpp"
#include "common/layout/shard_map.hpp"

namespace zeroproof {

/// Length of a move along a direction. none: always the whole step length. armijo: halved until f decreases
/// sufficiently [LBFGS:armijo]. strong_wolfe: until the slope is small too, by cubic interpolation [LBFGS:wolfe].
enum class LineSearch : std::uint8_t { none, armijo, strong_wolfe };

/// Reason for the end of a step of L-BFGS; the order of the checks is that of R21.
enum class LbfgsEnd : std::uint8_t {
  max_iter,
  max_eval,
  gradient,     ///< max|g| <= tolerance_grad: a stationary point
  step,         ///< the last move changed no element by more than tolerance_change
  loss,         ///< the last move changed f by less than tolerance_change
  no_descent,   ///< the directional derivative is above -tolerance_change; x was not moved along d
  line_search,  ///< no trial decreased f (sufficiently); x has its bits from before the search
  nonfinite,    ///< f, g or d is not finite; x has its bits from before the move
};

/// Ranges: R21. Defaults are those of torch.optim.LBFGS where it has the setting.
struct LbfgsHyper {
  double lr = 1;
  std::int64_t max_iter = 20;            ///< iterations per step
  std::optional<std::int64_t> max_eval;  ///< evaluations per step; without: floor(5 * max_iter / 4)
  double tolerance_grad = 1e-7;
  double tolerance_change = 1e-9;
  std::int64_t history_size = 100;  ///< m, number of stored pairs
  LineSearch line_search = LineSearch::none;
  std::int64_t max_ls = 25;  ///< trials per line search; strong_wolfe: after the first one
};

/// One rank of a sharded run; pointers must outlive the optimizer.
struct LbfgsSetup {
  const FlatLayout* layout = nullptr;
  const ShardMap* shards = nullptr;  ///< any layout, over comm; shards may be empty
  Communicator* comm = nullptr;
  LbfgsHyper hyper;
  Exec exec;
};

/// Everything that survives a step (R21). n is padded_numel when a state is loaded (undistributed, flat
/// order) and shard_numel in state(). Padding is ignored.
struct LbfgsState {
  Span<const float> master;       ///< [n] x
  Span<const float> grad_before;  ///< [n] if pending, else empty: g at the begin of the last move
  Span<const float> move;  ///< [n] if pending, else empty: the last change of x, before rounding
  std::vector<Span<const float>> steps;         ///< [num_pairs][n] s_i, oldest first
  std::vector<Span<const float>> grad_changes;  ///< [num_pairs][n] y_i
  std::vector<double> rho;                      ///< [num_pairs] 1 / (y_i . s_i)
  double h = 1;                                 ///< diagonal of the first inverse Hessian
  bool pending = false;                         ///< the pair of the last move is not stored yet
  bool started = false;                         ///< at least one direction was computed
  std::int64_t iterations = 0;                  ///< since the beginning
  std::int64_t evaluations = 0;
};

/// Result of a step, the same bits on all ranks.
struct LbfgsReport {
  LbfgsEnd end = LbfgsEnd::max_iter;
  std::int64_t iterations = 0;   ///< n
  std::int64_t evaluations = 0;  ///< E
  std::int64_t pairs_stored = 0;
  std::int64_t pairs_skipped = 0;
  double first_loss = 0;  ///< f of the first evaluation
  double loss =
      0;  ///< f of the last evaluation at an accepted point: the first one, or the end of a move
  double max_abs_grad = 0;  ///< max_abs(g) of that evaluation
  double gtd = 0;           ///< of the last direction; 0 if there was none
  double step_length = 0;   ///< t of the last accepted move; 0 if there was none
};

/// L-BFGS over the ranks of a shard map [LBFGS:recursion].
class LbfgsOptimizer {
 public:
  virtual ~LbfgsOptimizer() = default;

  /// Call once before the first step, on all ranks; not collective.
  /// Errors: invalid_argument if a span has another length than R21's state needs, there are more pairs than
  /// m, or a number is negative.
  virtual void load_state(const LbfgsState& full) = 0;

  /// This rank's part of the state; views valid until the next step or load.
  virtual LbfgsState state() const = 0;

  /// One step, collective.
  ///
  /// Exact    bitwise, for any shard map and any number of ranks (R21).
  /// Errors   invalid_argument before a state was loaded; comm, on every rank, naming the ranks, if settings,
  ///          scalars of the state, f or the number of evaluations differ between ranks. After an error the
  ///          optimizer must be loaded again.
  virtual LbfgsReport step(Closure& closure) = 0;
};

/// f from the losses of all micro-batches: R11's tree in fp64, then divided once.
///
/// Shapes   losses: [M] (M * cp parts with CP), M >= 1, in data order.
/// Units    divisor: as in R5, 1 <= divisor < 2^53.
/// Exact    bitwise.
/// Errors   invalid_argument if there is no loss or the divisor is out of range.
/// Contract R21. The mean: [LBFGS:loss].
using MeanLossFn = double(Span<const double> losses, std::int64_t divisor);

/// One rank of L-BFGS.
///
/// Errors   invalid_argument if the setup is incomplete, layout, shard map and communicator do not fit each
///          other, or a setting is outside of R21's ranges.
/// Contract R21. Source [LBFGS:update].
using MakeLbfgsFn = std::unique_ptr<LbfgsOptimizer>(const LbfgsSetup& setup);

}  // namespace zeroproof
