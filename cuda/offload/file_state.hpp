#pragma once

#include <cstdint>

#include "cuda/offload/chunk_file.hpp"
#include "cuda/offload/offloaded_state.hpp"

namespace zeroproof::cuda {

/// Offloaded state in a file. Chunks pass through one slot in turn: each thread copies the part
/// that it updates, so the data is still in its caches. The disk works in parallel: the read-ahead
/// of the next chunk is requested before this one is copied, and the system writes back
/// asynchronously. Subclasses may read or write chunks in another way.
class FileState : public OffloadedState {
 public:
  /// Errors: io.
  FileState(const OptimizerSetup& setup, const StateSplit& split);

  void for_chunks(Use use, const Visit& visit) override;
  std::int64_t host_bytes() const override { return slot_.memory.num_bytes(); }
  std::int64_t file_bytes() const override { return file_.num_bytes(); }

 protected:
  virtual void arrive(Use use, std::int64_t chunk, ChunkFile::Slot& slot);
  virtual void leave(std::int64_t chunk, ChunkFile::Slot& slot) { file_.write(chunk, slot); }

  const StateSplit& split_;
  const bool overlap_;
  ChunkFile file_;
  ChunkFile::Slot slot_;
};

}  // namespace zeroproof::cuda
