#pragma once
// ZeRO for a first reading: plain_stage1.cpp, plain_stage2.cpp and plain_stage3.cpp are a page
// each, plain_shard.cpp is the work on a shard, the same in all of them. W ranks are the elements
// of a vector, and sending is copying. AdamW, bf16 parameters, the tree of gradients (R11). For
// ranks in processes, grids of ranks and all other settings see
// reference/zero/sharded/sharded_optimizer.cpp.

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "reference/gradients/tree_stack.hpp"

namespace zeroproof::reference {

struct PlainSetup {
  int world_size = 1;              ///< W
  std::int64_t micro_batches = 1;  ///< M
  std::int64_t numel = 0;          ///< parameters of the model, as one long vector
  std::vector<FlatRange> layers;   ///< in order of computation (stage 3); together [0, numel)
  OptimizerHyper hyper;            ///< adamw, without amsgrad and clip_value
  LossScalerConfig scaler;
};

/// The model: the gradient of the loss of one micro-batch, times 2^log2_loss_scale, for the
/// parameters of a layer.
/// Shapes   param, result: [layer.numel()].
using PlainModel =
    std::function<std::vector<float>(std::int64_t micro_batch, const FlatRange& layer,
                                     const std::vector<bf16>& param, int log2_loss_scale)>;

/// The elements that one rank updates, and their state, [range.numel()] each.
struct PlainShard {
  FlatRange range;
  std::vector<float> grad, master, exp_avg, exp_avg_sq;
  std::vector<bf16> param;
};

class PlainZero {
 public:
  /// initial: master, exp_avg, exp_avg_sq, [numel], and the counters.
  /// Errors: invalid_argument if there is no rank or no micro-batch, a buffer is not [numel], the
  /// layers are not contiguous, or the rule is not adamw.
  PlainZero(const PlainSetup& setup, const FullState& initial);
  virtual ~PlainZero() = default;

  /// One training step. Returns false if a gradient overflowed: then only the loss scaler has
  /// changed.
  virtual bool step(const PlainModel& model) = 0;

  const std::vector<PlainShard>& shards() const { return shards_; }  ///< [W]
  std::int64_t applied_steps() const { return applied_steps_; }
  LossScalerState loss_scaler() const { return scaler_; }

 protected:
  /// From the sum of gradients in every shard to its new parameters. Returns the same as step().
  bool update_shards();

  PlainSetup setup_;
  FlatRange everything_;            // [0, numel)
  std::vector<PlainShard> shards_;  // [W]; a partition of the elements
  std::int64_t applied_steps_;
  LossScalerState scaler_;
};

/// Parameters and gradients on every rank, sharded optimizer state.
class PlainStage1 final : public PlainZero {
 public:
  PlainStage1(const PlainSetup& setup, const FullState& initial);
  bool step(const PlainModel& model) override;

 private:
  void gather();
  std::vector<std::vector<bf16>> params_;  // [W][numel]
};

/// Parameters on every rank, sharded gradients and optimizer state.
class PlainStage2 final : public PlainZero {
 public:
  PlainStage2(const PlainSetup& setup, const FullState& initial);
  bool step(const PlainModel& model) override;

 private:
  void gather();
  std::vector<std::vector<bf16>> params_;  // [W][numel]
};

/// Everything sharded; a layer's parameters are whole on a rank while the layer computes.
class PlainStage3 final : public PlainZero {
 public:
  using PlainZero::PlainZero;
  bool step(const PlainModel& model) override;
};

/// The tree of R11 over vectors of `numel` elements, without leaves.
inline TreeStack empty_tree(std::int64_t numel) { return TreeStack(numel, {{0, 0, 0, 0, numel}}); }

/// Copies the intersection of both ranges from one rank's memory to another's. from:
/// [from_range.numel()], to: [to_range.numel()].
/// Errors: invalid_argument if `from` has another number of elements, which a wrong model may
/// return.
template <class T>
void send(const std::vector<T>& from, const FlatRange& from_range, std::vector<T>& to,
          const FlatRange& to_range) {
  ZP_CHECK(static_cast<std::int64_t>(from.size()) == from_range.numel(),
           ErrorCode::invalid_argument,
           "a rank has " + std::to_string(from.size()) + " elements for a range of " +
               std::to_string(from_range.numel()),
           "other ranks would read past its end",
           "return one gradient for each parameter from the model");
  const std::int64_t begin = std::max(from_range.begin, to_range.begin);
  const std::int64_t end = std::min(from_range.end, to_range.end);
  if (begin >= end) return;
  std::copy(from.begin() + (begin - from_range.begin), from.begin() + (end - from_range.begin),
            to.begin() + (begin - to_range.begin));
}

}  // namespace zeroproof::reference
