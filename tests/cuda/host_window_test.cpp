// The step of ranks that share memory: the bits of the tree, and of the phases.

#include <doctest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "common/base/philox.hpp"
#include "cuda/host/cast.hpp"
#include "cuda/host/clip.hpp"
#include "cuda/host/grad_norm.hpp"
#include "cuda/host/grad_scale.hpp"
#include "cuda/host/grad_sum.hpp"
#include "cuda/host/step_scalars.hpp"
#include "cuda/host/update_twins.hpp"
#include "cuda/host/window_step.hpp"
#include "tests/cuda/expect_error.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::cuda;
using tests::expect_error;

std::vector<float> random_values(std::uint32_t stream, std::int64_t numel, float size) {
  const Philox random(11, stream);
  std::vector<float> values;
  for (std::int64_t i = 0; i < numel; ++i)
    values.push_back(random.bell(static_cast<std::uint64_t>(i)) * size);
  return values;
}

/// Leaves of M micro-batches, the nodes W contiguous ranks make of them, and the whole tree's sum.
struct Nodes {
  Nodes(std::int64_t micro_batches, std::int64_t world, std::int64_t numel)
      : sum(static_cast<std::size_t>(numel)) {
    for (std::int64_t j = 0; j < micro_batches; ++j) {
      leaves.push_back(random_values(static_cast<std::uint32_t>(j), numel, 1.0F));
    }
    for (std::int64_t r = 0; r < world; ++r) {
      for (const TreeNode& node :
           host::maximal_nodes(micro_batches * r / world, micro_batches * (r + 1) / world)) {
        nodes.push_back(node);
        const auto first = leaves.begin() + node.first_micro_batch();
        const std::vector<Span<const float>> below(first, first + (std::int64_t{1} << node.level));
        values.emplace_back(static_cast<std::size_t>(numel));
        host::grad_sum({}, below, values.back());
      }
    }
    host::grad_sum({}, std::vector<Span<const float>>(leaves.begin(), leaves.end()), sum);
  }

  std::vector<Span<const float>> views() const { return {values.begin(), values.end()}; }

  std::vector<std::vector<float>> leaves, values;
  std::vector<TreeNode> nodes;
  std::vector<float> sum;
};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

constexpr std::int64_t sizes[] = {0, 1, 1023, 4096, 4097, 16384 * 2 + 77};

}  // namespace

TEST_CASE("a fold plan makes the tree's sum from any ranks' nodes") {
  for (const std::int64_t micro_batches : {1, 2, 3, 7, 8, 11, 16}) {
    for (const std::int64_t world : {1, 2, 3, 5, 8, 17}) {
      const Nodes nodes(micro_batches, world, 4097);
      const host::FoldPlan plan(nodes.nodes);
      std::vector<float> scratch(static_cast<std::size_t>(plan.scratch_slots()) * 97), sum(97);
      std::vector<host::FoldOperand> operands;
      for (const Span<const float> node : nodes.views()) operands.push_back({node.data() + 4000});
      plan.run([](Span<const float> left, Span<const float> right,
                  Span<float> to) { host::add_nodes({}, left, right, to); },
               [](const host::FoldOperand& from, Span<float> to) {
                 std::copy_n(static_cast<const float*>(from.data), to.size(), to.begin());
               },
               operands, scratch, sum);
      CAPTURE(micro_batches);
      CAPTURE(world);
      CHECK(std::memcmp(sum.data(), nodes.sum.data() + 4000, 97 * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("window_reduce: G, found_inf and limbs of the phases") {
  for (const std::int64_t numel : sizes) {
    for (const int threads : {1, 3}) {
      Nodes nodes(7, 3, numel);
      if (numel > 1) nodes.sum.back() = nodes.values.back().back() = std::numeric_limits<float>::infinity();
      // The last node is the last operand of every sum, so an infinity in it is one in G.
      std::vector<float> grad(static_cast<std::size_t>(numel)), unscaled = grad;
      NormLimbs limbs, expected;
      const Exec exec{threads};
      const bool found =
          host::window_reduce(exec, host::FoldPlan(nodes.nodes), 0.125F, nodes.views(), grad, limbs);
      CHECK(same_bits(grad, nodes.sum));
      CHECK(host::unscale({}, 0.125F, nodes.sum, unscaled) == found);
      CHECK(found == (numel > 1));
      host::grad_norm_accumulate({}, unscaled, expected);
      host::grad_norm_normalise(expected);
      host::grad_norm_normalise(limbs);
      CHECK(limbs == expected);
    }
  }
}

TEST_CASE("window_update: the bits of the phases") {
  OptimizerHyper hyper;
  hyper.weight_decay = 0.1;
  const StepScalars scalars = host::step_scalars(hyper, 3, 4, 7);
  for (const std::int64_t numel : sizes) {
    for (const int threads : {1, 3}) {
      const Nodes nodes(7, 4, numel);
      const auto count = static_cast<std::size_t>(numel);
      std::vector<float> grad(count), master = random_values(50, numel, 0.1F);
      std::vector<float> exp_avg = random_values(51, numel, 0.01F),
                         exp_avg_sq = random_values(52, numel, 1.0F);
      for (float& x : exp_avg_sq) x = x * x;
      std::vector<bf16> param(count), window_param(count);
      std::vector<float> m = master, a = exp_avg, s = exp_avg_sq;

      host::unscale({}, scalars.inv_scale, nodes.sum, grad);
      host::clip({}, 0.75F, grad, grad);
      host::adamw_update({}, {}, scalars, grad, master, exp_avg, exp_avg_sq, {});
      host::cast_to_bf16({}, master, param);

      host::window_update({threads}, host::FoldPlan(nodes.nodes), host::fused_options(hyper), scalars, 0.75F,
                          nodes.views(), {m, a, s}, {window_param.data(), DType::bf16, numel});
      CHECK(same_bits(m, master));
      CHECK(same_bits(a, exp_avg));
      CHECK(same_bits(s, exp_avg_sq));
      CHECK((count == 0 || std::memcmp(param.data(), window_param.data(), count * sizeof(bf16)) == 0));
    }
  }
}

TEST_CASE("window steps refuse what they cannot add up") {
  const std::vector<float> values(8);
  std::vector<float> sum(8);
  NormLimbs limbs;
  expect_error(ErrorCode::invalid_argument, [&] { host::FoldPlan(std::vector<TreeNode>{}); });
  expect_error(ErrorCode::invalid_argument, [&] { host::FoldPlan({{0, 1}, {0, 0}}); });
  const host::FoldPlan plan({{0, 0}, {0, 1}});
  const std::vector<Span<const float>> one = {values};
  const std::vector<Span<const float>> short_node = {values, Span<const float>(values).first(7)};
  expect_error(ErrorCode::invalid_argument, [&] { host::window_reduce({}, plan, 1, one, sum, limbs); });
  expect_error(ErrorCode::invalid_argument,
               [&] { host::window_reduce({}, plan, 1, short_node, sum, limbs); });
}
