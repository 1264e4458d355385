// Wrong gradient sums from public bugs: replaced phase reduce.

#include <algorithm>
#include <utility>

#include "verification/faults/implementations/wrong_bins.hpp"
#include "verification/faults/implementations/wrong_sums.hpp"
#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

using cuda::ProductionOptimizer;

/// Finds the tensors that have a gradient.
class ToldStep final : public cuda::HostStep {
 public:
  using HostStep::HostStep;
  bool updated(const Piece& piece) const { return steps_.updated(piece); }
};

/// Gathers all micro-batch gradients and adds them with a wrong sum.
class WrongSum : public ProductionOptimizer {
 public:
  WrongSum(const FaultContext& context, Sum* sum)
      : ProductionOptimizer(context.setup, context.space, context.ops, step_of<ToldStep>(context)),
        sum_(sum) {}

 protected:
  void reduce(GradSource& grads) override { write(sum_of(grads, true)); }

  Values sum_of(GradSource& grads, bool with_tp) {
    Leaves leaves = gather_leaves(layout_.setup, grads, with_tp);
    leaves.log2_loss_scale = loss_scaler().log2_scale;
    return sum_(leaves, layout_.setup);
  }
  bool updated(const Piece& piece) const {
    return static_cast<const ToldStep&>(*step_).updated(piece);
  }
  virtual bool written(const Piece&) { return true; }
  void write(const Values& sum) {
    for (const Piece& piece : layout_.setup.layout->pieces(layout_.ranges)) {
      if (!written(piece)) continue;
      std::copy_n(sum.begin() + piece.global_begin, piece.numel, part(memory_.grad, piece).begin());
    }
  }

 private:
  Sum* const sum_;
};

class TpPartsApart final : public WrongSum {
 public:
  explicit TpPartsApart(const FaultContext& context) : WrongSum(context, canonical_sum) {}

 private:
  void reduce(GradSource& grads) override { write(sum_of(grads, false)); }
};

class TpPartsLast final : public WrongSum {
 public:
  explicit TpPartsLast(const FaultContext& context) : WrongSum(context, canonical_sum) {}

 private:
  void reduce(GradSource& grads) override {
    Values sum = sum_of(grads, false);
    add_tp_parts(layout_.setup, sum);
    write(sum);
  }
};

/// The reduction runs before the last micro-batch has arrived, so that its gradient counts in the
/// next step.
class LeakingBoundary final : public ProductionOptimizer {
 public:
  explicit LeakingBoundary(const FaultContext& context)
      : ProductionOptimizer(context.setup, context.space, context.ops,
                            step_of<cuda::HostStep>(context)) {}

 private:
  void reduce(GradSource& grads) override {
    Leaves leaves = gather_leaves(layout_.setup, grads, true);
    if (late_.empty()) late_.assign(leaves.of.back().size(), 0.0F);
    std::swap(leaves.of.back(), late_);
    const Values sum = canonical_sum(leaves, layout_.setup);
    for (const Piece& piece : layout_.setup.layout->pieces(layout_.ranges)) {
      std::copy_n(sum.begin() + piece.global_begin, piece.numel, part(memory_.grad, piece).begin());
    }
  }

  Values late_;
};

/// A bucket with a parameter that has no gradient is skipped.
class IdleBucketKept final : public WrongSum {
 public:
  explicit IdleBucketKept(const FaultContext& context) : WrongSum(context, canonical_sum) {}

 private:
  bool written(const Piece& piece) override {
    const std::int64_t bucket = layout_.setup.shards->buckets().front().numel();
    const std::vector<TensorSlot>& tensors = layout_.setup.layout->tensors();
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      Piece other;
      other.tensor = static_cast<std::int64_t>(t);
      if (tensors[t].numel > 0 && tensors[t].begin / bucket == piece.global_begin / bucket &&
          !updated(other))
        return false;
    }
    return true;
  }
};

/// A tensor without a gradient is not written: its sum stays that of the step before.
class StaleSum final : public WrongSum {
 public:
  explicit StaleSum(const FaultContext& context) : WrongSum(context, canonical_sum) {}

 private:
  void reduce(GradSource& grads) override {
    Values sum = sum_of(grads, true);
    for (const TensorSlot& tensor : layout_.setup.layout->tensors()) {
      Piece piece;
      piece.tensor = &tensor - layout_.setup.layout->tensors().data();
      if (old_.empty() || updated(piece)) continue;
      std::copy_n(old_.begin() + tensor.begin, tensor.numel, sum.begin() + tensor.begin);
    }
    write(sum);
    old_ = std::move(sum);
  }

  Values old_;
};

}  // namespace

std::unique_ptr<DistributedOptimizer> wrong_reduce(std::string_view fault,
                                                   const FaultContext& context) {
  struct Row {
    std::string_view fault;
    Sum* sum;
  };
  constexpr Row rows[] = {{"accumulator-overwritten", overwritten_sum},
                          {"bf16-accumulator", bf16_sum},
                          {"doubles-each-microbatch", doubled_sum},
                          {"transpose-of-sum", sum_times_world},
                          {"clip-per-microbatch", sum_of_clipped},
                          {"reduce-reads-other-buffer", own_sum},
                          {"instances-not-reduced", sum_of_instance},
                          {"instances-reduced-twice", sum_over_instances_again},
                          {"senders-share-a-stack", sum_as_they_arrive},
                          {"strided-local-index", sum_by_local_index},
                          {"idle-rank-sends-zeros", sum_with_zeros},
                          {"cp-parts-folded-last", sum_of_parts_last},
                          {"lower-bin-forgotten", lower_bin_forgotten},
                          {"bins-merged-unaligned", bins_merged_unaligned},
                          {"bins-rounded-twice", bins_rounded_twice},
                          {"node-reused-early", sum_of_reused_node},
                          {"stale-leaf-added", sum_of_stale_leaves},
                          {"node-memory-shared", sum_of_shared_memory}};
  for (const Row& row : rows) {
    if (row.fault == fault) return std::make_unique<WrongSum>(context, row.sum);
  }
  if (fault == "tp-parts-not-combined") return std::make_unique<TpPartsApart>(context);
  if (fault == "tp-parts-after-the-sum") return std::make_unique<TpPartsLast>(context);
  if (fault == "boundary-microbatch-leaks") return std::make_unique<LeakingBoundary>(context);
  if (fault == "idle-bucket-not-reduced") return std::make_unique<IdleBucketKept>(context);
  if (fault == "stale-grad-reapplied") return std::make_unique<StaleSum>(context);
  return nullptr;
}

}  // namespace zeroproof::verification
