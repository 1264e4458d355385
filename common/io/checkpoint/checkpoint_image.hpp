#pragma once
// A rank's file in memory: made by all threads of a rank, hashes included, so that the thread that
// writes it during training does nothing else.

#include <vector>

#include "common/io/checkpoint/checkpoint_manifest.hpp"
#include "common/io/checkpoint/chunk_hashes.hpp"
#include "common/io/files/page_buffer.hpp"

namespace zeroproof {

class CheckpointImage {
 public:
  /// The file of these pieces, as write_rank_file would write it. names: the manifest's tensors,
  /// run and step. values: of each piece, all of its elements. The memory is reused: the system
  /// would fill new pages with zeros.
  /// Errors: std::bad_alloc.
  void make(const CheckpointManifest& names, const std::vector<CheckpointPiece>& pieces,
            const std::vector<Span<const float>>& values, int num_threads);

  Span<const std::byte> bytes() const { return buffer_.bytes().first(num_bytes_); }
  const std::vector<Digest>& chunks() const { return chunks_; }

 private:
  PageBuffer buffer_;
  std::size_t num_bytes_ = 0;
  std::vector<Digest> chunks_;  ///< [ceil(num_bytes / chunk_bytes)]
};

}  // namespace zeroproof
