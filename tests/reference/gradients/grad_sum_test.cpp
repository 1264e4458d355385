#include <algorithm>

#include "reference/gradients/tree_stack.hpp"
#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace grad_sum_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

using Leaves = std::vector<std::vector<float>>;

Leaves random_leaves(std::int64_t num_leaves, std::int64_t numel) {
  Leaves leaves;
  for (std::int64_t j = 0; j < num_leaves; ++j) {
    leaves.push_back(random_values(numel, static_cast<std::uint64_t>(100 + j)));
  }
  return leaves;
}

std::vector<float> tree_sum(const Leaves& leaves) {
  const std::vector<Span<const float>> views(leaves.begin(), leaves.end());
  std::vector<float> sum(leaves[0].size());
  reference::grad_sum({}, views, sum);
  return sum;
}

/// The definition by indices: all nodes of one level after the other, element by element.
float tree_sum_by_levels(std::vector<float> level) {
  while (level.size() > 1) {
    std::vector<float> above((level.size() + 1) / 2);
    for (std::size_t k = 0; k < above.size(); ++k) {
      above[k] = 2 * k + 1 < level.size() ? level[2 * k] + level[2 * k + 1] : level[2 * k];
    }
    level = above;
  }
  return level[0];
}

std::vector<float> expected_sum(const Leaves& leaves) {
  std::vector<float> sum;
  for (std::size_t i = 0; i < leaves[0].size(); ++i) {
    std::vector<float> column;
    for (const std::vector<float>& leaf : leaves) column.push_back(leaf[i]);
    sum.push_back(tree_sum_by_levels(column));
  }
  return sum;
}

/// A stack whose nodes have no padding.
reference::TreeStack plain_stack(std::int64_t numel) {
  return reference::TreeStack(numel, {Piece{0, 0, 0, 0, numel}});
}

}  // namespace

TEST_CASE("gradient sum: M = 1..40 against the definition by indices") {
  bool order_matters = false;
  for (std::int64_t num_leaves = 1; num_leaves <= 40; ++num_leaves) {
    CAPTURE(num_leaves);
    const Leaves leaves = random_leaves(num_leaves, 61);
    const std::vector<float> sum = tree_sum(leaves);
    CHECK(bits(sum) == bits(expected_sum(leaves)));

    std::vector<float> one_after_another = leaves[0];
    for (std::size_t j = 1; j < leaves.size(); ++j) {
      for (std::size_t i = 0; i < sum.size(); ++i) one_after_another[i] += leaves[j][i];
    }
    order_matters = order_matters || bits(sum) != bits(one_after_another);
  }
  CHECK(order_matters);  // otherwise the numbers above could not distinguish two orders
}

TEST_CASE("gradient sum: vectors longer than a block") {
  for (const std::int64_t numel : {0, 1, 1023, 1024, 1025, 4099}) {
    const Leaves leaves = random_leaves(5, numel);
    CHECK(bits(tree_sum(leaves)) == bits(expected_sum(leaves)));
  }
}

TEST_CASE("gradient sum: by hand") {
  // 2^24 + 1 is a tie in fp32 and rounds to 2^24, so the 1s must be added to each other first.
  const auto sum = [](std::vector<float> values) {
    Leaves leaves;
    for (const float value : values) leaves.push_back({value});
    return tree_sum(leaves)[0];
  };
  CHECK(sum({0x1p24F, 1, 1, 1}) == 0x1p24F + 2);        // (2^24 + 1) + (1 + 1)
  CHECK(sum({1, 1, 0x1p24F, 1}) == 0x1p24F + 2);        // (1 + 1) + (2^24 + 1)
  CHECK(sum({0x1p24F, 1, 1}) == 0x1p24F);               // (2^24 + 1) + 1
  CHECK(sum({1, 1, 0x1p24F}) == 0x1p24F + 2);           // (1 + 1) + 2^24
  CHECK(sum({0x1p24F, 1, 1, 1, 1, 1}) == 0x1p24F + 4);  // ((2^24 + 1) + 2) + 2
  CHECK(std::isinf(sum({3e38F, 3e38F, -3e38F, -3e38F})) == false);
  CHECK(std::isnan(sum(
      {3e38F, 3e38F, -3e38F, -3e38F})));  // inf + -inf: a partial overflow is part of the result
}

TEST_CASE("gradient sum: -0 stays -0") {
  for (std::int64_t num_leaves = 1; num_leaves <= 9; ++num_leaves) {
    const Leaves leaves(static_cast<std::size_t>(num_leaves),
                        std::vector<float>{-0.0F, 0x1p-149F, nan32});
    const std::vector<float> sum = tree_sum(leaves);
    CHECK(bits(sum[0]) == bits(-0.0F));
    CHECK(bits(sum[1]) == bits(static_cast<float>(num_leaves) * 0x1p-149F));
    CHECK(std::isnan(sum[2]));
  }
}

TEST_CASE("maximal nodes: the largest nodes inside the block") {
  for (std::int64_t first = 0; first <= 40; ++first) {
    for (std::int64_t last = first; last <= 40; ++last) {
      const auto inside = [&](int level, std::int64_t k) {
        return k << level >= first && (k + 1) << level <= last;
      };
      std::vector<TreeNode> expected;
      for (int level = 0; level <= 6; ++level) {
        for (std::int64_t k = 0; k << level < last; ++k) {
          if (inside(level, k) && !inside(level + 1, k / 2)) expected.push_back({level, k});
        }
      }
      std::ranges::sort(expected, {}, &TreeNode::first_micro_batch);
      CHECK(reference::maximal_nodes(first, last) == expected);
    }
  }
  // 3..12 is 3 | 4 5 6 7 | 8 9 10 11.
  CHECK(reference::maximal_nodes(3, 12) == std::vector<TreeNode>{{0, 3}, {2, 1}, {2, 2}});
}

TEST_CASE("gradient stack: blocks of any ranks fold into the same bits") {
  for (std::int64_t num_leaves = 1; num_leaves <= 40; ++num_leaves) {
    const Leaves leaves = random_leaves(num_leaves, 17);
    const std::vector<std::uint32_t> expected = bits(expected_sum(leaves));
    for (std::int64_t world_size = 1; world_size <= 9; ++world_size) {
      reference::TreeStack owner = plain_stack(17);
      for (std::int64_t rank = 0; rank < world_size; ++rank) {
        reference::TreeStack sender = plain_stack(17);
        const std::int64_t first = num_leaves * rank / world_size;
        const std::int64_t last = num_leaves * (rank + 1) / world_size;
        for (std::int64_t j = first; j < last; ++j) sender.push({0, j}, leaves[j]);
        const std::vector<TreeNode> nodes = reference::maximal_nodes(first, last);
        REQUIRE(nodes.size() == sender.entries().size());
        for (std::size_t i = 0; i < nodes.size(); ++i) {
          CHECK(nodes[i] == sender.entries()[i].node);
          owner.push(nodes[i], sender.entries()[i].values);
        }
      }
      CHECK(bits(owner.fold()) == expected);
      CHECK(owner.entries().empty());
    }
  }
}

TEST_CASE("gradient stack: adds only inside the pieces") {
  reference::TreeStack stack(6, {Piece{0, 0, 0, 1, 2}, Piece{1, 0, 4, 4, 1}});
  stack.push({0, 0}, {9, 1, 2, 9, 3, 9});
  stack.push({0, 1}, {7, 1, 2, 7, 3, 7});
  CHECK(stack.fold() == std::vector<float>{9, 2, 4, 9, 6, 9});
}

TEST_CASE("gradient sum: invalid arguments are rejected") {
  std::vector<float> two(2), three(3);
  ZP_CHECK_INVALID(reference::grad_sum({}, {}, two));
  const std::vector<Span<const float>> leaves = {two, three};
  ZP_CHECK_INVALID(reference::grad_sum({}, leaves, two));
  ZP_CHECK_INVALID(reference::add_nodes({}, two, three, two));
  ZP_CHECK_INVALID(reference::add_nodes({}, two, two, three));
  ZP_CHECK_INVALID(reference::maximal_nodes(-1, 2));
  ZP_CHECK_INVALID(reference::maximal_nodes(3, 2));
  CHECK(reference::maximal_nodes(3, 3).empty());
  reference::TreeStack stack = plain_stack(2);
  ZP_CHECK_INVALID(stack.push({0, 0}, three));
  stack.push({0, 1}, two);
  ZP_CHECK_INVALID(stack.push({0, 0}, two));
}

TEST_CASE("add_nodes: in place on either side") {
  std::vector<float> left = {1, -0.0F};
  std::vector<float> right = {2, -0.0F};
  reference::add_nodes({}, left, right, left);
  CHECK(bits(left) == bits(std::vector<float>{3, -0.0F}));
  reference::add_nodes({}, left, right, right);
  CHECK(bits(right) == bits(std::vector<float>{5, -0.0F}));
}

}  // namespace grad_sum_test
