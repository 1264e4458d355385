#include <bit>
#include <cstring>
#include <limits>

#include "verification/contract_version.hpp"
#include "verification/rank_pair.hpp"

namespace zeroproof::verification {
namespace {

std::vector<FlatRange> owned(const FlatLayout& layout, const ShardMap& shards, int stage, int rank) {
  if (stage > 0) return shards.shard(rank);
  // State is replicated: rank 0's copy stands for all (every copy is compared with the reference on its own
  // rank).
  if (rank == 0 && layout.padded_numel() > 0) return {{0, layout.padded_numel()}};
  return {};
}

std::int64_t total(const std::vector<FlatRange>& ranges) {
  std::int64_t numel = 0;
  for (const FlatRange& range : ranges) numel += range.numel();
  return numel;
}

}  // namespace

GuardedBuffer StateCollector::collect(const TensorView& mine) {
  const auto world = static_cast<std::size_t>(comm_.world_size());
  const std::int64_t width = num_bytes(mine.dtype);
  const bool root = comm_.rank() == 0;
  std::vector<std::vector<std::byte>> incoming(world);
  std::vector<Span<const std::byte>> send(world);
  std::vector<Span<std::byte>> receive(world);
  const std::int64_t mine_numel = total(owned(layout_, shards_, stage_, comm_.rank()));
  send[0] = {static_cast<const std::byte*>(mine.data), static_cast<std::size_t>(mine_numel * width)};
  if (root) {
    for (std::size_t r = 0; r < world; ++r) {
      incoming[r].resize(
          static_cast<std::size_t>(total(owned(layout_, shards_, stage_, static_cast<int>(r))) * width));
      receive[r] = incoming[r];
    }
  }
  comm_.all_to_all(send, receive);
  if (!root) return {};
  GuardedBuffer full(layout_.padded_numel(), mine.dtype);
  for (std::size_t r = 0; r < world; ++r) {
    const std::byte* from = incoming[r].data();
    for (const FlatRange& range : owned(layout_, shards_, stage_, static_cast<int>(r))) {
      const auto bytes = static_cast<std::size_t>(range.numel() * width);
      std::memcpy(static_cast<std::byte*>(full.data()) + range.begin * width, from, bytes);
      from += bytes;
    }
  }
  return full;
}

TrajectoryHash::TrajectoryHash() { hasher_.add(std::uint64_t{contract_version}); }

void TrajectoryHash::add_step(const Scalars& s, const FlatLayout& layout,
                              const std::vector<TensorView>& buffers) {
  hasher_.add(static_cast<std::uint64_t>(s.step));
  hasher_.add(s.step_scalars);
  hasher_.add(static_cast<std::uint64_t>(static_cast<std::int64_t>(s.log2_loss_scale)));
  hasher_.add(std::uint64_t{s.found_inf ? 1U : 0U});
  hasher_.add(s.skipped ? std::numeric_limits<double>::quiet_NaN() : s.grad_norm);
  float coef = s.skipped ? std::numeric_limits<float>::quiet_NaN() : s.clip_coef;
  hasher_.add(TensorView{&coef, DType::fp32, 1});
  if (s.tensor_steps.numel > 0) hasher_.add(s.tensor_steps);
  for (const TensorSlot& slot : layout.tensors()) {
    for (const TensorView& view : buffers) {
      hasher_.add(TensorView{static_cast<std::byte*>(view.data) + slot.begin * num_bytes(view.dtype),
                             view.dtype, slot.numel});
    }
  }
}

}  // namespace zeroproof::verification
