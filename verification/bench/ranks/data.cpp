#include "verification/bench/ranks/data.hpp"

#include <algorithm>
#include <cstring>

#include "common/base/error.hpp"
#include "cuda/host/grad_sum.hpp"
#include "verification/bench/measure/values.hpp"

namespace zeroproof::verification::bench {
namespace {

Span<float> floats(Span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

FlatRange shard_of(const Communicator& comm, std::int64_t numel) {
  const std::int64_t part = numel / comm.world_size();
  return {part * comm.rank(), part * (comm.rank() + 1)};
}

std::vector<TreeNode> nodes_of(const Communicator& comm, std::int64_t micro_batches, int rank) {
  const std::int64_t size = comm.world_size();
  return cuda::host::maximal_nodes(micro_batches * rank / size, micro_batches * (rank + 1) / size);
}

/// What the backward passes of a node's micro-batches leave: their tree, made in blocks.
void fill_node(const TreeNode& node, Span<float> out) {
  constexpr std::size_t block = 65536;
  const auto count = static_cast<std::size_t>(std::int64_t{1} << node.level);
  std::vector<std::vector<float>> leaves(count);
  for (std::size_t begin = 0; begin < out.size(); begin += block) {
    const Span<float> here = out.subspan(begin, std::min(block, out.size() - begin));
    for (std::size_t j = 0; j < count; ++j) {
      leaves[j].resize(here.size());
      fill_leaf(node.first_micro_batch() + static_cast<std::int64_t>(j), static_cast<std::int64_t>(begin),
                leaves[j]);
    }
    cuda::host::grad_sum({}, std::vector<Span<const float>>(leaves.begin(), leaves.end()), here);
  }
}

template <class T>
void touch(const HugeBuffer<T>& buffer) {
  std::memset(buffer.data(), 0xFF, buffer.num_bytes());
}

}  // namespace

RankState::RankState(const FlatRange& range)
    : master(range.numel()), exp_avg(range.numel()), exp_avg_sq(range.numel()) {
  fill_master(range.begin, master.span());
  fill_exp_avg(range.begin, exp_avg.span());
  fill_exp_avg_sq(range.begin, exp_avg_sq.span());
}

WindowNodes::WindowNodes(Communicator& comm, std::int64_t count, std::int64_t numel, const FlatRange& shard)
    : micro_batches(count) {
  const auto mine = nodes_of(comm, count, comm.rank());
  window = comm.shared_window(static_cast<std::int64_t>(mine.size() * sizeof(float)) * numel);
  ZP_CHECK(window != nullptr, ErrorCode::unavailable, "the ranks share no memory",
           "the windows are what is measured", "start them on one machine");
  for (std::size_t k = 0; k < mine.size(); ++k) {
    const auto size = static_cast<std::size_t>(numel);
    fill_node(mine[k], floats(window->of(comm.rank())).subspan(k * size, size));
  }
  std::vector<TreeNode> all;
  for (int rank = 0; rank < comm.world_size(); ++rank) {
    const auto theirs = nodes_of(comm, count, rank);
    for (std::size_t k = 0; k < theirs.size(); ++k) {
      const std::size_t begin = k * static_cast<std::size_t>(numel) + static_cast<std::size_t>(shard.begin);
      nodes.push_back(floats(window->of(rank)).subspan(begin, static_cast<std::size_t>(shard.numel())));
    }
    all.insert(all.end(), theirs.begin(), theirs.end());
  }
  plan = std::make_unique<cuda::host::FoldPlan>(all);
  window->fence();
}

RankData::RankData(Communicator& c, MpiLibrary& l, std::int64_t count)
    : comm(c),
      library(l),
      numel(count),
      shard(shard_of(c, count)),
      leaf(count),
      scattered(shard.numel()),
      reduced(count),
      copied(count),
      clipped_sum(shard.numel()),
      scattered_params(count),
      reduced_params(count),
      scattered_state(shard),
      window_state(shard),
      more_state(shard),
      clipped_state(shard),
      reduced_state({0, count}),
      one_each(c, c.world_size(), count, shard),
      more(c, 2 * c.world_size() + 1, count, shard),
      params(c.shared_window(c.rank() == 0 ? num_shared_copies * count * 2 : 0)) {
  fill_leaf(c.rank(), 0, leaf.span());
  for (const auto* buffer : {&scattered, &reduced, &copied, &clipped_sum}) touch(*buffer);
  for (const auto* buffer : {&scattered_params, &reduced_params}) touch(*buffer);
}

Span<std::uint16_t> RankData::shared_params(int copy) const {
  auto* begin = reinterpret_cast<std::uint16_t*>(params->of(0).data());
  return {begin + copy * numel, static_cast<std::size_t>(numel)};
}

}  // namespace zeroproof::verification::bench
