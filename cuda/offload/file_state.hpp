#pragma once

#include <array>
#include <cstddef>
#include <future>
#include <vector>

#include "cuda/offload/chunk_file.hpp"
#include "cuda/offload/offloaded_state.hpp"

namespace zeroproof::cuda {

/// Offloaded state in a file: while a chunk is updated the next one is read and the one before is written. A class of
/// one's own may bring or write chunks in another way.
class FileState : public OffloadedState {
 public:
  /// Errors: io.
  FileState(const OptimizerSetup& setup, const StateSplit& split);

  void for_chunks(Use use, const Visit& visit) override;
  std::int64_t host_bytes() const override;
  std::int64_t file_bytes() const override { return file_.num_bytes(); }

 protected:
  static constexpr std::size_t most_slots = 3;  ///< one arrives, one is updated, one leaves

  /// Both by any thread, one at a time for each chunk and slot.
  virtual void arrive(Use use, std::int64_t chunk, ChunkFile::Slot& slot);
  virtual void leave(std::int64_t chunk, ChunkFile::Slot& slot) { file_.write(chunk, slot); }
  std::launch when() const { return overlap_ ? std::launch::async : std::launch::deferred; }

  const StateSplit& split_;
  const bool overlap_;
  ChunkFile file_;
  std::vector<ChunkFile::Slot> slots_;
};

}  // namespace zeroproof::cuda
