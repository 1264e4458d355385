#include "cuda/offload/file_state.hpp"

#include <algorithm>

namespace zeroproof::cuda {
namespace {

std::vector<std::int64_t> numels_of(const StateSplit& split) {
  std::vector<std::int64_t> numels;
  for (const StateSplit::Chunk& chunk : split.chunks()) numels.push_back(chunk.numel);
  return numels;
}

}  // namespace

FileState::FileState(const OptimizerSetup& setup, const StateSplit& split)
    : split_(split),
      overlap_(setup.offload.overlap),
      file_(setup.offload.folder, numels_of(split),
            static_cast<std::int64_t>(offloaded_buffers(setup.hyper).size())) {
  const std::vector<StateSplit::Chunk>& chunks = split.chunks();
  if (chunks.empty()) return;
  const std::size_t slots = overlap_ ? std::min(most_slots, chunks.size()) : 1;
  for (std::size_t i = 0; i < slots; ++i) {
    slots_.push_back({ChunkMemory(offloaded_buffers(setup.hyper), chunks.front().numel, false)});
  }
}

void FileState::for_chunks(Use use, const Visit& visit) {
  const std::size_t count = split_.chunks().size();
  std::future<void> arriving;
  std::array<std::future<void>, most_slots> leaving;  // all wait when they go, whatever was thrown
  const auto start = [&](std::size_t i) {
    const std::size_t to = i % slots_.size();
    if (leaving[to].valid()) leaving[to].get();
    arriving =
        std::async(when(), [this, use, i, to] { arrive(use, static_cast<std::int64_t>(i), slots_[to]); });
  };
  if (count > 0) start(0);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t here = i % slots_.size();
    arriving.get();
    if (overlap_ && i + 1 < count) start(i + 1);
    const StateSplit::Chunk& chunk = split_.chunks()[i];
    visit(chunk, slots_[here].memory.part(0, chunk.numel, chunk.numel));
    if (use != Use::read) {
      leaving[here] =
          std::async(when(), [this, i, here] { leave(static_cast<std::int64_t>(i), slots_[here]); });
    }
    if (!overlap_ && i + 1 < count) start(i + 1);
  }
  for (std::future<void>& last : leaving) {
    if (last.valid()) last.get();
  }
}

void FileState::arrive(Use use, std::int64_t chunk, ChunkFile::Slot& slot) {
  if (use == Use::fill) return file_.take(chunk, slot);
  if (overlap_ && chunk + 1 < static_cast<std::int64_t>(split_.chunks().size())) file_.read_ahead(chunk + 1);
  file_.read(chunk, slot);
}

std::int64_t FileState::host_bytes() const {
  std::int64_t bytes = 0;
  for (const ChunkFile::Slot& slot : slots_) bytes += slot.memory.num_bytes();
  return bytes;
}

std::unique_ptr<OffloadedState> offload_to_file(const OptimizerSetup& setup, const StateSplit& split) {
  return std::make_unique<FileState>(setup, split);
}

}  // namespace zeroproof::cuda
