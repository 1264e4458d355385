#include "verification/interfaces/plugin/cut_buffer.hpp"

#include <cstring>

namespace zeroproof::verification {
namespace {

std::int64_t numel_of(const std::vector<FlatRange>& ranges) {
  std::int64_t numel = 0;
  for (const FlatRange& range : ranges) numel += range.numel();
  return numel;
}

enum class Direction { to_part, to_whole };

/// Copies between a buffer and the elements of some ranges, which are stored contiguously.
void copy(const GuardedBuffer& whole, void* part, const std::vector<FlatRange>& ranges,
          Direction direction) {
  const auto width = static_cast<std::size_t>(num_bytes(whole.dtype()));
  auto* here = static_cast<std::byte*>(part);
  for (const FlatRange& range : ranges) {
    auto* const there =
        static_cast<std::byte*>(whole.data()) + static_cast<std::size_t>(range.begin) * width;
    const std::size_t bytes = static_cast<std::size_t>(range.numel()) * width;
    std::memcpy(direction == Direction::to_part ? here : there,
                direction == Direction::to_part ? there : here, bytes);
    here += bytes;
  }
}

}  // namespace

std::vector<FlatRange> kept_ranges(const OptimizerSetup& setup, int rank) {
  if (setup.stage == 0) return {{0, setup.layout->padded_numel()}};
  return setup.shards->shard(rank);
}

CutBuffer::CutBuffer(const OptimizerSetup& setup, BufferId id, DType dtype)
    : setup_(&setup),
      id_(id),
      ranges_(kept_ranges(setup, setup.comm->rank())),
      whole_(setup.layout->padded_numel(), dtype),
      mine_(numel_of(ranges_), dtype) {}

void CutBuffer::keep_own() { copy(whole_, mine_.data(), ranges_, Direction::to_part); }

void CutBuffer::gather() {
  if (setup_->stage == 0) return copy(whole_, mine_.data(), ranges_, Direction::to_whole);
  const int ranks = setup_->comm->world_size();
  std::vector<std::vector<std::byte>> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t numel = setup_->shards->shard_numel(rank);
    parts.emplace_back(static_cast<std::size_t>(numel * num_bytes(whole_.dtype())));
  }
  const std::vector<Span<std::byte>> places(parts.begin(), parts.end());
  const auto own = static_cast<std::size_t>(mine_.view().num_bytes());
  setup_->comm->all_gather({static_cast<const std::byte*>(mine_.data()), own}, places);
  for (int rank = 0; rank < ranks; ++rank) {
    copy(whole_, parts[rank].data(), kept_ranges(*setup_, rank), Direction::to_whole);
  }
}

}  // namespace zeroproof::verification
