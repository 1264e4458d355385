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

/// Memory for the gradient sum of a rank, at one range of addresses: pages with offloaded elements lie elsewhere, the
/// others where the rank's buffers are. Whoever writes or reads the sum uses addresses, as without it. On a device
/// those pages are the host's, and kernels reach them there; on the host they are its own, or a file's that is mapped.
/// Every step makes the sum anew, so the file has no versions. It is written in full before it is mapped, so that a
/// full disk is an error here and no signal later; and what was summed is known by its XXH3-128 until it has been used.
class OffloadedGradBuffer {
 public:
  /// What lies elsewhere is no longer counted on the ledger, in which the buffer counts whole. Errors: io; unavailable
  /// if the device has no such memory.
  OffloadedGradBuffer(const Offload& offload, const StateSplit& split, MemoryLedger& ledger);
  /// The buffer is gone by then.
  ~OffloadedGradBuffer();
  OffloadedGradBuffer(const OffloadedGradBuffer&) = delete;
  OffloadedGradBuffer& operator=(const OffloadedGradBuffer&) = delete;

  /// [shard_numel] fp32, NaN at birth. Once.
  CountedBuffer buffer();

  /// The sum is as it should be: what lies in a file must not change until it is sealed again. Nothing without a file.
  void seal(const Exec& exec);
  /// Whoever makes the sum anew does not care what is there.
  void unseal() { is_sealed_ = false; }
  /// Errors: damaged, if what was sealed has changed.
  void check(const Exec& exec) const;

  std::int64_t host_bytes() const { return file_ ? 0 : num_bytes_; }
  std::int64_t file_bytes() const { return file_ ? num_bytes_ : 0; }

 private:
  void map_file(const Offload& offload, const std::vector<FlatRange>& pages);
  /// Of all blocks as they are.
  std::vector<Digest> digests(const Exec& exec) const;
  void release() noexcept;

  MemoryLedger& ledger_;
  const std::int64_t numel_;     ///< of the shard
  std::int64_t num_bytes_ = 0;   ///< elsewhere
  std::size_t all_bytes_ = 0;    ///< of the range, with a page on both sides
  std::byte* memory_ = nullptr;  ///< of the range; the sum begins at its second page
  std::unique_ptr<UnnamedFile> file_;
  std::vector<FlatRange> blocks_;  ///< elements in the file, some at a time
  std::vector<Digest> sealed_;     ///< [blocks]
  bool is_sealed_ = false;
};

}  // namespace zeroproof::cuda
