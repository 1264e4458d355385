#include "cuda/reduce/whole_reduce.hpp"

#include "cuda/comm/exchange/micro_batches.hpp"

namespace zeroproof::cuda {
namespace {

ReductionSchedule moves_of(const OptimizerSetup& setup, const MicroBatchIndex& numbers) {
  const ReductionSchedule::Steps steps = numbers.steps_of(0);
  constexpr auto stay = ReductionSchedule::LastLeaves::stay;
  return setup.grad_sum == GradSum::native ? ReductionSchedule::accumulate(steps, stay)
                                           : ReductionSchedule::tree(steps, stay);
}

host::FoldPlan fold_of(const OptimizerSetup& setup, const ReductionSchedule& moves) {
  if (setup.grad_sum == GradSum::native)
    return host::FoldPlan::one_after_another(moves.left().size());
  std::vector<TreeNode> nodes;
  for (const ReductionSchedule::Left& left : moves.left()) nodes.push_back(left.node);
  return host::FoldPlan(nodes);
}

}  // namespace

bool WholeReduce::fits(const OptimizerSetup& setup) {
  // TP ranks add their parts bucket by bucket; bins have more than one number per element.
  return data_ranks(setup) == 1 && tp_ranks(setup) == 1 && setup.grad_sum != GradSum::binned;
}

WholeReduce::WholeReduce(const ReduceTools& tools, const MicroBatchIndex& numbers,
                         const std::vector<FlatRange>& ranges)
    : tools_(tools),
      micro_batches_(tools.setup.micro_batches),
      moves_(moves_of(tools.setup, numbers)),
      fold_(fold_of(tools.setup, moves_)),
      all_(tools.setup.layout->pieces({{0, tools.setup.layout->padded_numel()}})),
      mine_(tools.setup.layout->pieces(ranges)),
      store_(tools, moves_, tools.setup.layout->padded_numel()) {}

void WholeReduce::finish(const NodeValues& last, const GradTarget& target) {
  const auto numel = static_cast<std::int64_t>(target.grad_sum.size());
  FoldJob job{
      &fold_, {}, NodeValues::packed(TensorView{target.grad_sum.data(), DType::fp32, numel})};
  for (const ReductionSchedule::Left& left : moves_.left()) {
    job.operands.push_back(left.source.leaf ? last : store_.flat(left.source.index));
  }
  tools_.run(mine_, {&job, 1}, target.epilogue);
  for (const ReductionSchedule::Left& left : moves_.left()) {
    if (!left.source.leaf) tools_.forget(all_, store_.flat(left.source.index));
  }
  store_.require_intact();
}

}  // namespace zeroproof::cuda
