#include <bit>
#include <cstring>
#include <memory>

#include "verification/cases/case_layout.hpp"

namespace zeroproof::verification {
namespace {

std::int64_t total(const std::vector<FlatRange>& ranges) {
  std::int64_t numel = 0;
  for (const FlatRange& range : ranges) numel += range.numel();
  return numel;
}

/// Memory for the data of another rank, fully overwritten and so not initialized.
class Incoming {
 public:
  Incoming() = default;
  explicit Incoming(std::int64_t num_bytes)
      : num_bytes_(static_cast<std::size_t>(num_bytes)),
        memory_(std::make_unique_for_overwrite<std::byte[]>(num_bytes_)) {}

  Span<std::byte> bytes() const { return {memory_.get(), num_bytes_}; }

 private:
  std::size_t num_bytes_ = 0;
  std::unique_ptr<std::byte[]> memory_;
};

void copy_elements(const std::byte* from, std::int64_t from_begin, const TensorView& to,
                   std::int64_t to_begin, std::int64_t numel) {
  const std::int64_t width = num_bytes(to.dtype);
  std::memcpy(static_cast<std::byte*>(to.data) + to_begin * width, from + from_begin * width,
              static_cast<std::size_t>(numel * width));
}

}  // namespace

std::vector<FlatRange> StateCollector::owned(int rank) const {
  const RankCoords place = layout_.place(rank);
  const CaseLayout::Local& local = layout_.local(place.tp_rank);
  if (stage_ > 0) return local.shards.shard(place.shard_rank);
  if (local.layout.padded_numel() == 0) return {};
  return {{0, local.layout.padded_numel()}};
}

bool StateCollector::whole_on_root() const {
  if (layout_.grid().tp > 1) return false;
  std::int64_t next = 0;
  for (const FlatRange& range : owned(0)) {
    if (range.begin != next) return false;
    next = range.end;
  }
  return next == whole_.padded_numel();
}

GuardedBuffer StateCollector::collect(const TensorView& mine) {
  const int world = comm_.world_size();
  const bool root = comm_.rank() == 0;
  if (whole_on_root()) {
    if (!root) return {};
    GuardedBuffer copy(mine.numel, mine.dtype, BufferFill::untouched);
    if (mine.numel > 0)
      copy_elements(static_cast<const std::byte*>(mine.data), 0, copy.view(), 0, mine.numel);
    return copy;
  }
  // One copy is enough here (each is compared with the reference on its own rank): that of the
  // first instance, and in stage 0 of its first rank.
  const auto sends = [&](int rank) {
    const RankCoords place = layout_.place(rank);
    return place.instance == 0 && (stage_ > 0 || place.shard_rank == 0);
  };
  const std::int64_t width = num_bytes(mine.dtype);
  std::vector<Incoming> incoming(world);
  std::vector<Span<const std::byte>> send(world);
  std::vector<Span<std::byte>> receive(world);
  if (sends(comm_.rank())) {
    send[0] = {static_cast<const std::byte*>(mine.data),
               static_cast<std::size_t>(total(owned(comm_.rank())) * width)};
  }
  for (int rank = 0; root && rank < world; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (sends(rank)) incoming[r] = Incoming(total(owned(rank)) * width);
    receive[r] = incoming[r].bytes();
  }
  comm_.all_to_all(send, receive);
  if (!root) return {};
  GuardedBuffer full(whole_.padded_numel(), mine.dtype);
  for (int rank = 0; rank < world; ++rank) {
    if (!sends(rank)) continue;
    const int tp_rank = layout_.place(rank).tp_rank;
    for (const Piece& piece : layout_.local(tp_rank).layout.pieces(owned(rank))) {
      layout_.for_runs(tp_rank, piece, [&](std::int64_t from, std::int64_t to, std::int64_t numel) {
        copy_elements(incoming[rank].bytes().data(), from, full.view(), to, numel);
      });
    }
  }
  return full;
}

std::vector<float> StateCollector::collect_scales(const ExposedBuffer& mine) {
  std::vector<std::uint64_t> words(whole_.padded_numel() / state_block_numel);
  const auto* scale = static_cast<const float*>(mine.view.data);
  for (const FlatRange& blocks : mine.ranges) {
    for (std::int64_t block = blocks.begin; block < blocks.end; ++block)
      words[block] = std::bit_cast<std::uint32_t>(*scale++);
  }
  comm_.all_reduce(words,
                   IntegerReduce::max);  // all ranks with a block have the same scale
  std::vector<float> scales;
  scales.reserve(words.size());
  for (const std::uint64_t word : words)
    scales.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(word)));
  return scales;
}

GuardedBuffer StateCollector::gather(const TensorView& mine) {
  const int world = comm_.world_size();
  const RankCoords here = layout_.place(comm_.rank());
  const auto together = [&](const RankCoords& a, const RankCoords& b) {
    return a.instance == b.instance && a.tp_rank == b.tp_rank;
  };
  const std::int64_t width = num_bytes(mine.dtype);
  std::vector<Incoming> incoming(world);
  std::vector<Span<const std::byte>> send(world);
  std::vector<Span<std::byte>> receive(world);
  for (int rank = 0; rank < world; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (!together(here, layout_.place(rank))) continue;
    send[r] = {static_cast<const std::byte*>(mine.data),
               static_cast<std::size_t>(total(owned(comm_.rank())) * width)};
    incoming[r] = Incoming(total(owned(rank)) * width);
    receive[r] = incoming[r].bytes();
  }
  comm_.all_to_all(send, receive);
  const FlatLayout& layout = layout_.local(here.tp_rank).layout;
  GuardedBuffer full(layout.padded_numel(), mine.dtype);
  for (int rank = 0; rank < world; ++rank) {
    if (!together(here, layout_.place(rank))) continue;
    for (const Piece& piece : layout.pieces(owned(rank))) {
      copy_elements(incoming[rank].bytes().data(), piece.local_begin, full.view(),
                    piece.global_begin, piece.numel);
    }
  }
  return full;
}

}  // namespace zeroproof::verification
