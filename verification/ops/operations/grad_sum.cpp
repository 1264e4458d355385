#include <algorithm>
#include <array>

#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/compare/bounds/step_bounds.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"

namespace zeroproof::verification {
namespace {

OpFunction run_add(AddNodesFn* implementation) {
  return [implementation](OpCall& call) {
    const Span<float> sum = call.get<float>(2);
    Span<const float> left = call.in<float>(0);
    Span<const float> right = call.in<float>(1);
    Span<const float>& alias = call.variant() == 1 ? left : right;
    if (call.variant() != 0) {
      std::copy_n(alias.data(), sum.size(), sum.data());
      alias = sum;
    }
    implementation(call.exec, left, right, sum);
  };
}

/// Micro-batches by variant: a power of two, odd ones, and one past a power of two.
constexpr std::array<std::size_t, 6> leaf_counts = {1, 2, 3, 5, 8, 13};
constexpr std::size_t most_leaves = 13;

OpFunction run_tree(GradSumFn* implementation) {
  return [implementation](OpCall& call) {
    std::vector<Span<const float>> leaves;
    for (std::size_t j = 0; j < leaf_counts[call.variant()]; ++j) {
      leaves.push_back(call.in<float>(j));
    }
    implementation(call.exec, leaves, call.get<float>(most_leaves));
  };
}

std::unique_ptr<CallBounds> sum_bounds(const OpCall& pristine, const OpCall&) {
  return CallBounds::by([&pristine](std::size_t, std::int64_t i) {
    std::array<float, most_leaves> leaves{};
    const std::size_t count = leaf_counts[pristine.variant()];
    for (std::size_t j = 0; j < count; ++j) leaves[j] = pristine.in<float>(j)[i];
    return sum_bound({leaves.data(), count});
  });
}

/// Blocks of up to 4096 micro-batches leave at most 2 * 12 nodes.
constexpr std::size_t words_per_block = 64;

OpFunction run_nodes(MaximalNodesFn* implementation) {
  return [implementation](OpCall& call) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
      const auto first = static_cast<std::int64_t>(call.in<std::uint64_t>(0)[2 * i]);
      const auto last = static_cast<std::int64_t>(call.in<std::uint64_t>(0)[2 * i + 1]);
      std::vector<TreeNode> nodes;
      call.get<std::uint32_t>(2)[i] = refused([&] { nodes = implementation(first, last); });
      const Span<std::uint64_t> words =
          call.get<std::uint64_t>(1).subspan(i * words_per_block, words_per_block);
      std::fill(words.begin(), words.end(), 0U);
      words[0] = nodes.size();
      for (std::size_t k = 0; k < nodes.size() && 2 * k + 2 < words_per_block; ++k) {
        words[2 * k + 1] = static_cast<std::uint64_t>(nodes[k].level);
        words[2 * k + 2] = static_cast<std::uint64_t>(nodes[k].index);
      }
    }
  };
}

void draw_blocks(OpCall& call) {
  for (std::int64_t i = 0; i < call.numel(); ++i) {
    const PhiloxBlock w = call.words(0, i);
    auto first = static_cast<std::int64_t>(w[0] % (w[2] % 2 == 0 ? 17U : 4097U));
    std::int64_t last = first + static_cast<std::int64_t>(w[1] % (w[2] % 2 == 0 ? 17U : 4097U));
    if (w[3] % 16 == 0) last = first - 1;  // refused
    if (w[3] % 16 == 1) first = -1;        // refused
    call.get<std::uint64_t>(0)[2 * i] = static_cast<std::uint64_t>(first);
    call.get<std::uint64_t>(0)[2 * i + 1] = static_cast<std::uint64_t>(last);
  }
}

}  // namespace

std::vector<Op> grad_sum_ops() {
  Op add;
  add.name = "add_nodes";
  add.contract = "grad_sum.hpp";
  add.type = "AddNodesFn";
  add.phases = {Phase::reduce};
  add.variants = {"apart", "into left", "into right"};
  add.operands = {input("left"), input("right"), output("sum")};
  add.fills = number_fills();
  add.one_result = "it rounds once, to nearest even";
  add.reference = run_add(reference::add_nodes);
  add.host = run_add(cuda::host::add_nodes);
  add.device = run_add(on_device<cuda::device::add_nodes>);

  Op nodes;
  nodes.name = "maximal_nodes";
  nodes.contract = "grad_sum.hpp";
  nodes.type = "MaximalNodesFn";
  nodes.exactness = Exactness::integer;
  nodes.phases = {Phase::reduce};
  nodes.operands = {per_element(input("first_last", Content::given, DType::u64), 2),
                    per_element(output("nodes", DType::u64), words_per_block),
                    output("refused", DType::u32)};
  nodes.fills = {Fill::sweep};
  nodes.largest = 4097;
  nodes.one_result = "it computes with integers";
  nodes.generate = draw_blocks;
  nodes.reference = run_nodes(reference::maximal_nodes);
  nodes.host = run_nodes(cuda::host::maximal_nodes);

  Op tree;
  tree.name = "grad_sum";
  tree.contract = "grad_sum.hpp";
  tree.type = "GradSumFn";
  tree.exactness = Exactness::ordered;
  tree.phases = {Phase::reduce};
  for (const std::size_t count : leaf_counts)
    tree.variants.push_back(std::to_string(count) + " leaves");
  for (std::size_t j = 0; j < most_leaves; ++j)
    tree.operands.push_back(input("leaf" + std::to_string(j)));
  tree.operands.push_back(output("sum"));
  tree.fills = number_fills();
  tree.largest = 4097;
  tree.bounds = sum_bounds;
  tree.reference = run_tree(reference::grad_sum);
  tree.host = run_tree(cuda::host::grad_sum);
  return {add, nodes, tree};
}

}  // namespace zeroproof::verification
