#include "cuda/offload/file_state.hpp"

namespace zeroproof::cuda {
namespace {

std::vector<std::int64_t> numels_of(const StateSplit& split) {
  std::vector<std::int64_t> numels;
  for (const StateSplit::Chunk& chunk : split.chunks()) numels.push_back(chunk.numel);
  return numels;
}

std::int64_t longest_of(const StateSplit& split) {
  return split.chunks().empty() ? 0 : split.chunks().front().numel;
}

}  // namespace

FileState::FileState(const OptimizerSetup& setup, const StateSplit& split)
    : split_(split),
      overlap_(setup.offload.overlap),
      file_(setup.offload.folder, numels_of(split), offloaded_buffers(setup), setup.exec),
      slot_{ChunkMemory(offloaded_buffers(setup), longest_of(split), false)} {}

void FileState::for_chunks(Use use, const Visit& visit) {
  for (const StateSplit::Chunk& chunk : split_.chunks()) {
    arrive(use, chunk.number, slot_);
    visit(chunk, slot_.memory.part(0, chunk.numel, chunk.numel));
    if (use != Use::read) leave(chunk.number, slot_);
  }
}

void FileState::arrive(Use use, std::int64_t chunk, ChunkFile::Slot& slot) {
  if (use == Use::fill) return file_.take(chunk, slot);
  if (overlap_ && chunk + 1 < static_cast<std::int64_t>(split_.chunks().size()))
    file_.read_ahead(chunk + 1);
  file_.read(chunk, slot);
}

std::unique_ptr<OffloadedState> offload_to_file(const OptimizerSetup& setup,
                                                const StateSplit& split) {
  return std::make_unique<FileState>(setup, split);
}

}  // namespace zeroproof::cuda
