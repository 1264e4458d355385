// Native gradient sums (R11): the communication library adds the ranks' floats. Bits are not
// guaranteed.

#include <algorithm>
#include <utility>

#include "cuda/comm/exchange/micro_batches.hpp"
#include "cuda/comm/exchange/packed_exchange.hpp"
#include "cuda/reduce/leaf_sum.hpp"
#include "cuda/reduce/node_store.hpp"

namespace zeroproof::cuda {
namespace {

/// This rank's gradients of the whole model in one buffer.
class NativeSum final : public LeafSum {
 public:
  NativeSum(const ReduceTools& tools, const MicroBatchIndex& numbers)
      : tools_(tools),
        moves_(ReductionSchedule::accumulate(numbers.steps_of(tools.setup.comm->rank()))),
        store_(tools, moves_, tools.setup.layout->padded_numel()) {}

  void begin() override {
    if (moves_.slots() > 0) return;  // the first gradient is copied
    // No micro-batch here: the library adds zeros.
    if (zeros_->numel() == 0) zeros_ = tools_.memory.nodes(tools_.setup.layout->padded_numel());
    tools_.space().fill(zeros_->data(), 0, zeros_->view().num_bytes());
  }

  void keep(const host::PieceLoop& loop, std::int64_t micro_step, const NodeValues& leaf) override {
    store_.apply_flat(loop, micro_step, {&leaf, 1});
  }

  void receive(const BucketPlan&, std::int64_t, Span<const NodeValues>) override {}

  void finish(const BucketPlan& plan, const NodeValues& grad_sum,
              const FoldEpilogue& epilogue) override {
    NodeValues total = scattered(plan);
    if (plan.own.numel == 0) return;
    if (instances(tools_.setup) > 1) total = over_instances(plan, total);
    copy(plan, total, grad_sum, epilogue);
  }

  void end() override { store_.require_intact(); }

 private:
  NodeValues sum() {
    return moves_.slots() > 0 ? store_.flat(0) : NodeValues::flat(zeros_->view(), 0);
  }

  void copy(const BucketPlan& plan, const NodeValues& from, const NodeValues& to,
            const FoldEpilogue& epilogue) const {
    const FoldJob job{&alone_, {from}, to};
    tools_.run(plan.mine, {&job, 1}, epilogue);
  }

  /// True if the ranks' parts are contiguous in the bucket, in rank order.
  static bool in_rank_order(const BucketPlan& plan) {
    std::int64_t at = plan.range.begin;
    return std::ranges::all_of(plan.parts(), [&](const RankPart& part) {
      const bool follows = part.numel == 0 || (part.one_range() && part.begin() == at);
      at += part.numel;
      return follows;
    });
  }

  NodeValues scattered(const BucketPlan& plan);
  NodeValues over_instances(const BucketPlan& plan, const NodeValues& mine) const;

  const ReduceTools& tools_;
  const ReductionSchedule moves_;
  NodeStore store_;
  CountedBuffer zeros_;
  const host::FoldPlan alone_ = host::FoldPlan::one_after_another(1);
};

/// Sums over this instance of the elements this rank owns.
NodeValues NativeSum::scattered(const BucketPlan& plan) {
  Communicator& comm = *tools_.comm_groups.comm;
  if (comm.world_size() == 1) return sum();
  std::vector<std::int64_t> counts;
  std::int64_t total = 0;
  for (const RankPart& part : plan.parts()) {
    counts.push_back(part.numel);
    total += part.numel;
  }
  const auto* send = static_cast<const float*>(sum().view().data) + plan.range.begin;
  if (!in_rank_order(plan)) {
    std::byte* out = tools_.memory.out.take(total * static_cast<std::int64_t>(sizeof(float)));
    send = reinterpret_cast<const float*>(out);
    std::vector<Move> moves;
    for (const RankPart& part : plan.parts()) {
      pack(part, sum().view().data, 0, sizeof(float), out, moves);
      out += part.numel * static_cast<std::int64_t>(sizeof(float));
    }
    tools_.space().copy_many(moves);
  }
  const std::int64_t own_bytes = plan.own.numel * static_cast<std::int64_t>(sizeof(float));
  auto* in = reinterpret_cast<float*>(tools_.memory.in.take(own_bytes));
  comm.native_reduce_scatter({send, static_cast<std::size_t>(total)}, counts,
                             {in, static_cast<std::size_t>(plan.own.numel)});
  return NodeValues::packed(TensorView{in, DType::fp32, plan.own.numel});
}

/// Every instance adds a share of the elements and distributes it, so that all have the same bits.
NodeValues NativeSum::over_instances(const BucketPlan& plan, const NodeValues& mine) const {
  const OptimizerSetup& setup = tools_.setup;
  const std::int64_t numel = plan.own.numel;
  const std::int64_t bytes = numel * static_cast<std::int64_t>(sizeof(float));
  std::byte* const memory = tools_.memory.gathered.take(next_part(bytes) + bytes);
  auto* own = reinterpret_cast<float*>(memory);
  const NodeValues packed = NodeValues::packed(TensorView{own, DType::fp32, numel});
  tools_.space().fill(own, 0, bytes);  // padding is added too
  copy(plan, mine, packed, {});
  auto* result = reinterpret_cast<float*>(memory + next_part(bytes));
  std::vector<std::int64_t> counts;
  std::vector<Span<std::byte>> receive;
  Span<float> share;
  for (int i = 0; i < instances(setup); ++i) {
    const std::int64_t begin = numel * i / instances(setup);
    const std::int64_t end = numel * (i + 1) / instances(setup);
    counts.push_back(end - begin);
    const Span<float> part(result + begin, static_cast<std::size_t>(end - begin));
    if (i == instance(setup)) share = part;
    receive.push_back(std::as_writable_bytes(part));
  }
  tools_.comm_groups.replicas->native_reduce_scatter({own, static_cast<std::size_t>(numel)}, counts,
                                                     share);
  tools_.comm_groups.replicas->all_gather(std::as_bytes(share), receive);
  return NodeValues::packed(TensorView{result, DType::fp32, numel});
}

}  // namespace

std::unique_ptr<LeafSum> make_native_sum(const ReduceTools& tools, const MicroBatchIndex& numbers) {
  return std::make_unique<NativeSum>(tools, numbers);
}

}  // namespace zeroproof::cuda
