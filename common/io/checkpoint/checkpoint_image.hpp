#pragma once
// A rank's file as it will be on the disk, in memory: made at once by all threads of a rank, hashes included, so that
// whoever writes it behind training has nothing left to do but that.

#include <vector>

#include "common/io/checkpoint/checkpoint_manifest.hpp"
#include "common/io/checkpoint/chunk_hashes.hpp"
#include "common/io/files/page_buffer.hpp"

namespace zeroproof {

class CheckpointImage {
 public:
  /// Of these pieces, as write_rank_file would write them. names: the manifest's tensors, run and step. values: of each
  /// piece, all of its elements. The room is kept from one to the next: the system would fill new pages with zeros.
  /// Errors: std::bad_alloc.
  void make(const CheckpointManifest& names, const std::vector<CheckpointPiece>& pieces,
            const std::vector<Span<const float>>& values, int num_threads);

  Span<const std::byte> bytes() const { return room_.bytes().first(num_bytes_); }
  const std::vector<Digest>& chunks() const { return chunks_; }

 private:
  PageBuffer room_;
  std::size_t num_bytes_ = 0;
  std::vector<Digest> chunks_;  ///< [ceil(num_bytes / chunk_bytes)]
};

}  // namespace zeroproof
