#include "verification/faults/implementations/wrong_sums.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/float_formats.hpp"
#include "cuda/comm/exchange/micro_batches.hpp"

namespace zeroproof::verification {

Values canonical_sum(Leaves& leaves, const OptimizerSetup&) {
  return tree(leaves, numbers_to(leaves.count()));
}

Values overwritten_sum(Leaves& leaves, const OptimizerSetup&) { return leaves.of.back(); }

Values bf16_sum(Leaves& leaves, const OptimizerSetup&) {
  Values sum(leaves.of.front().size(), 0.0F);
  for (const Values& leaf : leaves.of) {
    sum = added(std::move(sum), leaf);
    for (float& value : sum) value = to_float(to_bf16(value));
  }
  return sum;
}

Values doubled_sum(Leaves& leaves, const OptimizerSetup& setup) {
  if (setup.comm->world_size() > 1) return canonical_sum(leaves, setup);
  Values sum(leaves.of.front().size(), 0.0F);
  for (const Values& leaf : leaves.of) {
    sum = added(std::move(sum), leaf);
    sum = added(sum, sum);
  }
  return sum;
}

Values sum_times_world(Leaves& leaves, const OptimizerSetup& setup) {
  for (Values& leaf : leaves.of) {
    for (float& value : leaf) value *= static_cast<float>(setup.comm->world_size());
  }
  return canonical_sum(leaves, setup);
}

Values sum_of_clipped(Leaves& leaves, const OptimizerSetup& setup) {
  const double limit = setup.hyper.max_norm.value_or(0);
  for (Values& leaf : leaves.of) {
    double sum = 0;
    for (const Piece& piece : setup.layout->pieces({{0, setup.layout->padded_numel()}})) {
      for (std::int64_t i = 0; i < piece.numel; ++i) {
        sum += std::pow(static_cast<double>(leaf[piece.global_begin + i]), 2);
      }
    }
    const double norm = std::ldexp(std::sqrt(sum), -leaves.log2_loss_scale);
    if (!(limit > 0 && norm > limit)) continue;
    for (float& value : leaf) value *= static_cast<float>(limit / norm);
  }
  return canonical_sum(leaves, setup);
}

Values own_sum(Leaves& leaves, const OptimizerSetup&) {
  const std::vector<std::int64_t>& own = leaves.rank_leaves[leaves.own_rank];
  return own.empty() ? Values(leaves.of.front().size(), 0.0F) : tree(leaves, own);
}

Values sum_of_instance(Leaves& leaves, const OptimizerSetup& setup) {
  std::vector<std::int64_t> numbers;
  for (int r = 0; r < leaves.shard_ranks; ++r) {
    const auto rank = static_cast<std::size_t>(cuda::instance(setup) * leaves.shard_ranks + r);
    numbers.insert(numbers.end(), leaves.rank_leaves[rank].begin(), leaves.rank_leaves[rank].end());
  }
  std::ranges::sort(numbers);
  return tree(leaves, numbers);
}

Values sum_over_instances_again(Leaves& leaves, const OptimizerSetup& setup) {
  const Values once = canonical_sum(leaves, setup);
  Values sum = once;
  for (int i = 1; i < cuda::instances(setup); ++i) sum = added(std::move(sum), once);
  return sum;
}

Values sum_as_they_arrive(Leaves& leaves, const OptimizerSetup&) {
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; numbers.size() < leaves.of.size(); ++i) {
    for (const std::vector<std::int64_t>& of_rank : leaves.rank_leaves) {
      if (i < of_rank.size()) numbers.push_back(of_rank[i]);
    }
  }
  return tree(leaves, numbers);
}

Values sum_by_local_index(Leaves& leaves, const OptimizerSetup&) {
  Values sum = tree(leaves, leaves.rank_leaves.front());
  for (std::size_t r = 1; r < leaves.rank_leaves.size(); ++r) {
    if (!leaves.rank_leaves[r].empty())
      sum = added(std::move(sum), tree(leaves, leaves.rank_leaves[r]));
  }
  return sum;
}

Values sum_with_zeros(Leaves& leaves, const OptimizerSetup& setup) {
  const auto ranks = leaves.rank_leaves.size();
  while (leaves.of.size() % ranks != 0) leaves.of.emplace_back(leaves.of.front().size(), 0.0F);
  return canonical_sum(leaves, setup);
}

Values sum_of_parts_last(Leaves& leaves, const OptimizerSetup& setup) {
  Values sum;
  for (std::int64_t part = 0; part < leaves.cp; ++part) {
    std::vector<std::int64_t> numbers;
    for (std::int64_t u = part; u < leaves.count(); u += leaves.cp) numbers.push_back(u);
    Values of_part = tree(leaves, numbers);
    sum = part == 0 ? std::move(of_part) : added(std::move(sum), of_part);
  }
  static_cast<void>(setup);
  return sum;
}

Values sum_of_reused_node(Leaves& leaves, const OptimizerSetup& setup) {
  for (const std::vector<std::int64_t>& of_rank : leaves.rank_leaves) {
    // The third gradient of a rank has no partner yet and reuses the memory of the node of the
    // first two.
    if (of_rank.size() < 3) continue;
    Values& third = leaves.of[of_rank[2]];
    leaves.of[of_rank[0]] = third;
    leaves.of[of_rank[1]].assign(third.size(), 0.0F);
  }
  return canonical_sum(leaves, setup);
}

Values sum_of_stale_leaves(Leaves& leaves, const OptimizerSetup& setup) {
  for (const std::vector<std::int64_t>& of_rank : leaves.rank_leaves) {
    for (std::size_t i = 1; i < of_rank.size(); i += 2) {
      leaves.of[of_rank[i - 1]] = leaves.of[of_rank[i]];
    }
  }
  return canonical_sum(leaves, setup);
}

Values sum_of_shared_memory(Leaves& leaves, const OptimizerSetup& setup) {
  const std::vector<std::int64_t>& last = leaves.rank_leaves.back();
  for (const std::vector<std::int64_t>& of_rank : leaves.rank_leaves) {
    for (std::size_t i = 0; i < std::min(of_rank.size(), last.size()); ++i) {
      leaves.of[of_rank[i]] = leaves.of[last[i]];
    }
  }
  return canonical_sum(leaves, setup);
}

}  // namespace zeroproof::verification
