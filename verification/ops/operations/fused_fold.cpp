// Sums over complete nodes in one pass: alone, and with the check of G on the way.

#include <algorithm>
#include <array>

#include "cuda/host/fold_plan.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/limb_words.hpp"

namespace zeroproof::verification {
namespace {

/// The leaves of a call, in the order of its operands.
constexpr std::array<DType, 5> leaf_dtypes = {DType::fp32, DType::fp32, DType::bf16, DType::fp32,
                                              DType::fp16};
constexpr std::size_t sum_operand = leaf_dtypes.size();

struct Way {
  const char* name;
  std::size_t leaves;
  float inv_scale;
  bool streamed;
  int over;  ///< fp32 leaf whose memory the sum takes, or -1
};

constexpr std::array<Way, 8> ways = {{{"1 leaf", 1, 1.0F, false, -1},
                                      {"1 leaf, streamed", 1, 0.37F, true, -1},
                                      {"2 leaves, sum over the first", 2, 0.37F, false, 0},
                                      {"2 leaves, sum over the second", 2, 0x1p-12F, false, 1},
                                      {"2 leaves, streamed", 2, 1.0F, true, -1},
                                      {"4 leaves, sum over the last", 4, 1.0F, false, 3},
                                      {"5 leaves", 5, 0.37F, false, -1},
                                      {"5 leaves, streamed", 5, 0x1p-12F, true, -1}}};

const Way& way_of(const OpCall& call) { return ways[call.variant()]; }

std::vector<float> widened(OpCall& call, std::size_t leaf) {
  std::vector<float> wide(call.numel());
  if (leaf_dtypes[leaf] == DType::bf16) {
    reference::widen_bf16({}, call.in<bf16>(leaf), wide);
  } else if (leaf_dtypes[leaf] == DType::fp16) {
    reference::widen_fp16({}, call.in<fp16>(leaf), wide);
  } else {
    std::ranges::copy(call.in<float>(leaf), wide.begin());
  }
  return wide;
}

void reference_sum(OpCall& call) {
  std::vector<std::vector<float>> wide;
  for (std::size_t j = 0; j < way_of(call).leaves; ++j) wide.push_back(widened(call, j));
  const std::vector<Span<const float>> leaves(wide.begin(), wide.end());
  reference::grad_sum({}, leaves, call.get<float>(sum_operand));
}

/// The leaves in place; the leaf whose memory the sum reuses is copied there first.
std::vector<cuda::host::GradStretch> operands(OpCall& call) {
  const Span<float> sum = call.get<float>(sum_operand);
  std::vector<cuda::host::GradStretch> from;
  for (std::size_t j = 0; j < way_of(call).leaves; ++j) {
    if (static_cast<int>(j) == way_of(call).over) {
      std::ranges::copy(call.in<float>(j), sum.begin());
      from.push_back({sum.data(), DType::fp32});
    } else {
      from.push_back({call.view(j).data, leaf_dtypes[j]});
    }
  }
  return from;
}

cuda::host::FoldPlan plan_of(const Way& way) {
  std::vector<TreeNode> nodes;
  for (std::size_t j = 0; j < way.leaves; ++j) nodes.push_back({0, static_cast<std::int64_t>(j)});
  return cuda::host::FoldPlan(nodes);
}

void host_sum(OpCall& call) {
  cuda::host::fused_fold(call.exec, plan_of(way_of(call)), operands(call),
                         call.get<float>(sum_operand), way_of(call).streamed);
}

void put_look(OpCall& call, bool found, const NormLimbs& limbs) {
  call.get<std::uint32_t>(sum_operand + 1)[0] = found ? 2 : 1;
  put_limbs(limbs, call.get<std::uint64_t>(sum_operand + 2));
}

void reference_sum_and_look(OpCall& call) {
  reference_sum(call);
  std::vector<float> grad(call.numel());
  const bool found =
      reference::unscale({}, way_of(call).inv_scale, call.get<float>(sum_operand), grad);
  NormLimbs limbs;
  reference::grad_norm_accumulate({}, grad, limbs);
  reference::grad_norm_normalise(limbs);
  put_look(call, found, limbs);
}

void host_sum_and_look(OpCall& call) {
  NormLimbs limbs;
  const bool found = cuda::host::fused_fold_finite_and_norm(
      call.exec, way_of(call).inv_scale, plan_of(way_of(call)), operands(call),
      call.get<float>(sum_operand), way_of(call).streamed, limbs);
  cuda::host::grad_norm_normalise(limbs);
  put_look(call, found, limbs);
}

Op fold_op(const char* name, OpFunction reference, OpFunction host) {
  Op op;
  op.name = name;
  op.phases = {Phase::reduce};
  op.exactness = Exactness::ordered;
  for (const Way& way : ways) op.variants.emplace_back(way.name);
  for (std::size_t j = 0; j < leaf_dtypes.size(); ++j) {
    op.operands.push_back(input("leaf " + std::to_string(j), Content::value, leaf_dtypes[j]));
  }
  op.operands.push_back(output("sum"));
  op.fills = number_fills();
  op.reference = std::move(reference);
  op.host = std::move(host);
  return op;
}

}  // namespace

std::vector<Op> fused_fold_ops() {
  std::vector<Op> ops = {
      fold_op("fused_fold", reference_sum, host_sum),
      fold_op("fused_fold_finite_and_norm", reference_sum_and_look, host_sum_and_look)};
  ops.back().operands.push_back(fixed(output("found_inf_plus_1", DType::u32), 1));
  ops.back().operands.push_back(fixed(output("limbs", DType::u64), limb_words));
  return ops;
}

}  // namespace zeroproof::verification
