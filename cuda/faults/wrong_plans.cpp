#include "cuda/faults/wrong_plans.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace zeroproof::cuda {
namespace {

auto first_of(StepPlan& plan, OpKind kind) {
  return std::ranges::find_if(plan.ops, [kind](const PlanOp& op) { return op.kind == kind; });
}

}  // namespace

StepPlan wrong_plan(StepPlan plan, std::string_view fault) {
  if (fault == "bucket-reduced-early") {
    const auto ready = first_of(plan, OpKind::ready);
    const auto reduce = first_of(plan, OpKind::reduce);
    if (ready < reduce) std::rotate(ready, reduce, reduce + 1);
  }
  if (fault == "Z82-reduction-does-not-wait") {
    const auto reduce = first_of(plan, OpKind::reduce);
    if (reduce != plan.ops.end()) reduce->waits.clear();
  }
  return plan;
}

FlatRange twin_unit(const FlatLayout& layout, const FlatRange& unit) {
  const std::vector<TensorSlot>& tensors = layout.tensors();
  const auto index = [&](std::int64_t begin) {
    return std::ranges::lower_bound(tensors, begin, {}, &TensorSlot::begin) - tensors.begin();
  };
  const std::ptrdiff_t first = index(unit.begin);
  const std::ptrdiff_t count = index(unit.end) - first;
  for (const std::ptrdiff_t other : {first + count, first - count}) {
    if (other < 0 || other + count > std::ssize(tensors)) continue;
    const auto numel = [](const TensorSlot& slot) { return slot.numel; };
    const auto here = tensors.begin() + first;
    const auto there = tensors.begin() + other;
    if (!std::ranges::equal(here, here + count, there, there + count, {}, numel, numel)) continue;
    return {there->begin, there->begin + unit.numel()};
  }
  return unit;
}

void poison(const TensorView& view) {
  if (view.numel > 0) std::memset(view.data, 0xFF, static_cast<std::size_t>(view.num_bytes()));
}

}  // namespace zeroproof::cuda
