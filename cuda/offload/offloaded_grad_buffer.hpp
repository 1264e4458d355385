#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/digest.hpp"
#include "common/base/exec.hpp"
#include "common/base/guarded_buffer.hpp"
#include "cuda/offload/state_split.hpp"
#include "cuda/offload/unnamed_file.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"

namespace zeroproof::cuda {

/// Memory for the gradient sum of a rank in one address range: pages with offloaded elements are
/// elsewhere, the others with the rank's buffers. Code that writes or reads the sum uses addresses,
/// as without offloading. On a device those pages are host memory accessed by kernels; on the host
/// they are anonymous memory or a mapped file. Every step computes the sum again, so the file has
/// no versions. It is written in full before it is mapped, so that a full disk is an error here and
/// not a signal later; the summed data is verified by its XXH3-128 until it has been used.
class OffloadedGradBuffer {
 public:
  /// The offloaded part is no longer counted on the ledger, in which the buffer counts as a whole.
  /// Errors: io; unavailable if the device has no such memory.
  OffloadedGradBuffer(const Offload& offload, const StateSplit& split, MemoryLedger& ledger);
  /// The buffer is freed by then.
  ~OffloadedGradBuffer();
  OffloadedGradBuffer(const OffloadedGradBuffer&) = delete;
  OffloadedGradBuffer& operator=(const OffloadedGradBuffer&) = delete;

  /// [shard_numel] fp32, initialized to NaN. Call once.
  CountedBuffer buffer();

  /// Marks the sum as complete: data in a file must not change until it is sealed again. No-op
  /// without a file.
  void seal(const Exec& exec);
  /// Ends the check, before the sum is computed again.
  void unseal() { is_sealed_ = false; }
  /// Errors: damaged, if the sealed data has changed.
  void check(const Exec& exec) const;

  std::int64_t host_bytes() const { return file_ ? 0 : num_bytes_; }
  std::int64_t file_bytes() const { return file_ ? num_bytes_ : 0; }

 private:
  void map_file(const Offload& offload, const std::vector<FlatRange>& pages);
  /// Digests of all blocks as they are.
  std::vector<Digest> digests(const Exec& exec) const;
  void release() noexcept;

  MemoryLedger& ledger_;
  const std::int64_t numel_;     ///< of the shard
  std::int64_t num_bytes_ = 0;   ///< offloaded
  std::size_t all_bytes_ = 0;    ///< of the range, with a page on both sides
  std::byte* memory_ = nullptr;  ///< of the range; the sum starts at its second page
  std::unique_ptr<UnnamedFile> file_;
  std::vector<FlatRange> blocks_;  ///< element ranges in the file
  std::vector<Digest> sealed_;     ///< [blocks]
  bool is_sealed_ = false;
};

}  // namespace zeroproof::cuda
