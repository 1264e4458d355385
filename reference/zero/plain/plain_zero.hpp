#pragma once
// ZeRO for a first reading: plain_stage1.cpp, plain_stage2.cpp and plain_stage3.cpp are a page each, plain_shard.cpp is
// what a step does with a shard, the same in all of them. W ranks are the elements of a vector, and sending is copying.
// AdamW, bf16 parameters, the tree of gradients (R11); ranks that are processes, grids of them and everything else a
// run can choose begin in sharded_optimizer.cpp.

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
  std::vector<FlatRange>
      layers;            ///< what computes at one time (stage 3), in order; together [0, numel)
  OptimizerHyper hyper;  ///< adamw, without amsgrad and clip_value
  LossScalerConfig scaler;
};

/// The model: the gradient of the loss of one micro-batch, times 2^log2_loss_scale, by the parameters of a layer.
/// Shapes   param, result: [layer.numel()].
using PlainModel =
    std::function<std::vector<float>(std::int64_t micro_batch, const FlatRange& layer,
                                     const std::vector<bf16>& param, int log2_loss_scale)>;

/// The elements one rank updates, and all it keeps for them, [range.numel()] each.
struct PlainShard {
  FlatRange range;
  std::vector<float> grad, master, exp_avg, exp_avg_sq;
  std::vector<bf16> param;
};

class PlainZero {
 public:
  /// Of `initial`: master, exp_avg, exp_avg_sq, [numel], and the counters.
  /// Errors: invalid_argument if there is no rank or no micro-batch, a buffer is not [numel], layers leave a gap, or
  /// the rule is another one.
  PlainZero(const PlainSetup& setup, const FullState& initial);
  virtual ~PlainZero() = default;

  /// One training step; false if a gradient overflowed: then nothing but the loss scaler has moved.
  virtual bool step(const PlainModel& model) = 0;

  const std::vector<PlainShard>& shards() const { return shards_; }  ///< [W]
  std::int64_t applied_steps() const { return applied_steps_; }
  LossScalerState loss_scaler() const { return scaler_; }

 protected:
  /// From the sum of gradients in every shard to its new parameters. Returns as step() does.
  bool update_shards();

  PlainSetup setup_;
  FlatRange everything_;            // [0, numel)
  std::vector<PlainShard> shards_;  // [W]; every element is in one of them
  std::int64_t applied_steps_;
  LossScalerState scaler_;
};

/// Parameters and gradients on every rank, optimizer state in shards.
class PlainStage1 final : public PlainZero {
 public:
  PlainStage1(const PlainSetup& setup, const FullState& initial);
  bool step(const PlainModel& model) override;

 private:
  void gather();
  std::vector<std::vector<bf16>> params_;  // [W][numel]
};

/// Parameters on every rank, gradients and optimizer state in shards.
class PlainStage2 final : public PlainZero {
 public:
  PlainStage2(const PlainSetup& setup, const FullState& initial);
  bool step(const PlainModel& model) override;

 private:
  void gather();
  std::vector<std::vector<bf16>> params_;  // [W][numel]
};

/// Everything in shards; a layer's parameters are whole on a rank while the layer computes.
class PlainStage3 final : public PlainZero {
 public:
  using PlainZero::PlainZero;
  bool step(const PlainModel& model) override;
};

/// The tree of R11 over vectors of `numel` elements, with no leaf yet.
inline TreeStack empty_tree(std::int64_t numel) { return TreeStack(numel, {{0, 0, 0, 0, numel}}); }

/// Copies what both ranges have from one rank's memory to another's. from: [from_range.numel()], to:
/// [to_range.numel()].
/// Errors: invalid_argument if `from` has another number of elements, which a model may have made.
template <class T>
void send(const std::vector<T>& from, const FlatRange& from_range, std::vector<T>& to,
          const FlatRange& to_range) {
  ZP_CHECK(
      static_cast<std::int64_t>(from.size()) == from_range.numel(), ErrorCode::invalid_argument,
      "a rank has " + std::to_string(from.size()) + " elements of a range of " +
          std::to_string(from_range.numel()),
      "the others would read past its end", "let the model return one gradient for each parameter");
  const std::int64_t begin = std::max(from_range.begin, to_range.begin);
  const std::int64_t end = std::min(from_range.end, to_range.end);
  if (begin >= end) return;
  std::copy(from.begin() + (begin - from_range.begin), from.begin() + (end - from_range.begin),
            to.begin() + (begin - to_range.begin));
}

}  // namespace zeroproof::reference
