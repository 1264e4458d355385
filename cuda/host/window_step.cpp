#include "cuda/host/window_step.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "cuda/host/check.hpp"
#include "cuda/host/grad_sum.hpp"
#include "cuda/host/limb_deposit.hpp"
#include "cuda/host/parallel_blocks.hpp"

namespace zeroproof::cuda::host {
namespace {

/// Elements folded at a time: a few buffers of this size live in the first-level cache.
constexpr std::int64_t fold_numel = 4096;
static_assert(block_numel % fold_numel == 0 && fold_numel % norm_chunk_numel == 0);

Exec serial(Exec exec) {
  exec.num_threads = 1;
  return exec;
}

Span<float> part(Span<float> values, std::int64_t begin, std::int64_t numel) {
  if (values.empty()) return {};
  return values.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(numel));
}

void check_nodes(const FoldPlan& plan, Span<const Span<const float>> nodes, std::int64_t numel) {
  ZP_CHECK(nodes.size() == plan.num_nodes(), ErrorCode::invalid_argument,
           std::to_string(nodes.size()) + " gradient nodes were given for a plan of " +
               std::to_string(plan.num_nodes()),
           "every node is part of the sum", "pass one span for each");
  for (const Span<const float> node : nodes) {
    require_same_numel("window step", "a node", node.size(), "the shard", static_cast<std::size_t>(numel));
  }
}

/// Calls body(begin, sum) for every stretch of fold_numel elements, on exec's threads.
template <class Body>
void for_sums(const Exec& exec, const FoldPlan& plan, Span<const Span<const float>> nodes, std::int64_t numel,
              const Body& body) {
  check_nodes(plan, nodes, numel);
  const Exec one = serial(exec);
  parallel_blocks(exec, numel, [&](std::int64_t block, std::int64_t end) {
    thread_local std::vector<float> scratch, sum;
    thread_local std::vector<FoldOperand> operands;
    sum.resize(fold_numel);
    scratch.resize(static_cast<std::size_t>(plan.scratch_slots() * fold_numel));
    for (std::int64_t begin = block; begin < end; begin += fold_numel) {
      const std::int64_t count = std::min(fold_numel, end - begin);
      const Span<float> here = part(sum, 0, count);
      operands.clear();
      for (const Span<const float> node : nodes) operands.push_back({node.data() + begin, DType::fp32});
      plan.run([&](Span<const float> left, Span<const float> right,
                   Span<float> to) { add_nodes(one, left, right, to); },
               [](const FoldOperand& from, Span<float> to) {
                 std::copy_n(static_cast<const float*>(from.data), to.size(), to.begin());
               },
               operands, part(scratch, 0, plan.scratch_slots() * count), here);
      body(begin, here);
    }
  });
}

}  // namespace

bool window_reduce(const Exec& exec, const FoldPlan& plan, float inv_scale,
                   Span<const Span<const float>> nodes, Span<float> grad_sum, NormLimbs& limbs) {
  std::atomic<bool> found{false};
  std::mutex mutex;
  for_sums(exec, plan, nodes, numel(grad_sum), [&](std::int64_t begin, Span<float> sum) {
    NormLimbs here;
    if (fused_finite_and_norm(serial(exec), inv_scale, sum, here)) found = true;
    std::ranges::copy(sum, grad_sum.begin() + begin);
    const std::lock_guard lock(mutex);
    merge(here, limbs);
  });
  return found;
}

void window_update(const Exec& exec, const FoldPlan& plan, const FusedOptions& options,
                   const StepScalars& scalars, float clip_coef, Span<const Span<const float>> nodes,
                   const FusedState& state, const TensorView& param) {
  ZP_CHECK(!options.draw, ErrorCode::invalid_argument, "window_update was asked to round stochastically",
           "its blocks have no place in the global numbering", "use the phases");
  require_same_numel("window_update", "master", state.master.size(), "param",
                     static_cast<std::size_t>(param.numel));
  for_sums(exec, plan, nodes, numel(state.master), [&](std::int64_t begin, Span<float> sum) {
    const std::int64_t count = numel(sum);
    const FusedState piece{part(state.master, begin, count), part(state.exp_avg, begin, count),
                           part(state.exp_avg_sq, begin, count), part(state.max_exp_avg_sq, begin, count),
                           part(state.momentum_buffer, begin, count)};
    const TensorView to{static_cast<std::byte*>(param.data) + begin * num_bytes(param.dtype), param.dtype,
                        count};
    fused_update(serial(exec), options, scalars, clip_coef, sum, piece, to);
  });
}

}  // namespace zeroproof::cuda::host
