#include "verification/bench/ranks/data.hpp"

#include <algorithm>
#include <cstring>

#include "common/base/error.hpp"
#include "verification/bench/measure/values.hpp"

namespace zeroproof::verification::bench {
namespace {

FlatRange shard_of(const Communicator& comm, std::int64_t numel) {
  const std::int64_t part = numel / comm.world_size();
  return {part * comm.rank(), part * (comm.rank() + 1)};
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

RankData::RankData(Communicator& c, MpiLibrary& l, std::int64_t count)
    : comm(c),
      library(l),
      numel(count),
      shard(shard_of(c, count)),
      leaf(count),
      scattered(shard.numel()),
      reduced(count),
      copied(count),
      scattered_params(count),
      reduced_params(count),
      scattered_state(shard),
      limit_state(shard),
      reduced_state({0, count}),
      window(c.shared_window(count * static_cast<std::int64_t>(sizeof(float) + sizeof(std::uint16_t)))) {
  ZP_CHECK(window != nullptr, ErrorCode::unavailable, "the ranks share no memory",
           "work through shared memory is what is measured", "start them on one machine");
  fill_leaf(c.rank(), 0, leaf.span());
  std::ranges::copy(leaf.span(), shared_leaf(c.rank()).begin());
  for (const auto* buffer : {&scattered, &reduced, &copied}) touch(*buffer);
  for (const auto* buffer : {&scattered_params, &reduced_params}) touch(*buffer);
  window->fence();
}

Span<float> RankData::shared_leaf(int rank) const {
  return {reinterpret_cast<float*>(window->of(rank).data()), static_cast<std::size_t>(numel)};
}

Span<std::uint16_t> RankData::shared_params() const {
  const std::size_t leaves = static_cast<std::size_t>(numel) * sizeof(float);
  return {reinterpret_cast<std::uint16_t*>(window->of(0).data() + leaves), static_cast<std::size_t>(numel)};
}

}  // namespace zeroproof::verification::bench
