#include "cuda/reduce/tp_parts.hpp"

#include <vector>

#include "cuda/comm/exchange/micro_batches.hpp"
#include "cuda/comm/exchange/packed_exchange.hpp"
#include "cuda/comm/exchange/step_ranks.hpp"

namespace zeroproof::cuda {
namespace {

/// The parts of all TP ranks, each packed to the replicated tensors of the bucket, in rank order.
std::vector<NodeValues> all_parts(const ReduceTools& tools, const BucketPlan& plan,
                                  const NodeValues& leaf) {
  const OptimizerSetup& setup = tools.setup;
  const std::int64_t width = num_bytes(setup.grad_dtype);
  const std::int64_t part_bytes = plan.replicated_numel * width;
  std::byte* at = tools.memory.gathered.take(tp_ranks(setup) * next_part(part_bytes));
  std::vector<Span<std::byte>> receive;
  std::vector<NodeValues> parts;
  for (int r = 0; r < tp_ranks(setup); ++r) {
    receive.push_back({at, static_cast<std::size_t>(part_bytes)});
    parts.push_back(NodeValues::packed(TensorView{at, setup.grad_dtype, plan.replicated_numel}));
    at += next_part(part_bytes);
  }
  const auto self = static_cast<std::size_t>(tp_rank(setup));
  std::vector<Move> moves;
  for_runs(plan.replicated, leaf, parts[self], [&](Span<std::byte> from, Span<std::byte> to) {
    moves.push_back({to.data(), from.data(), numel(from)});
  });
  tools.space().copy_many(moves);
  tools.comm_groups.tp->all_gather(receive[self], receive);
  return parts;
}

}  // namespace

DType travelling_dtype(const OptimizerSetup& setup, const BucketPlan& plan) {
  return plan.replicated_numel > 0 ? DType::fp32 : setup.grad_dtype;
}

NodeValues with_tp_parts(const ReduceTools& tools, const BucketPlan& plan, const TensorView& leaf) {
  const OptimizerSetup& setup = tools.setup;
  const NodeValues mine = NodeValues::flat(leaf, plan.range.begin);
  if (plan.replicated_numel == 0) return mine;
  const std::vector<NodeValues> parts = all_parts(tools, plan, mine);
  const std::int64_t numel = plan.range.numel();
  std::byte* const data =
      tools.memory.tp_sum.take(numel * static_cast<std::int64_t>(sizeof(float)));
  const NodeValues sum = NodeValues::flat(TensorView{data, DType::fp32, numel}, plan.range.begin);
  std::vector<TreeNode> ranks;
  for (int r = 0; r < tp_ranks(setup); ++r) ranks.push_back({0, r});
  const host::FoldPlan alone({{0, 0}});
  const FoldJob widened{&alone, {mine}, sum};
  tools.run(plan.unreplicated, {&widened, 1});
  const host::FoldPlan fold(ranks);
  const FoldJob added{&fold, parts, sum};
  tools.run(plan.replicated, {&added, 1});
  return sum;
}

}  // namespace zeroproof::cuda
