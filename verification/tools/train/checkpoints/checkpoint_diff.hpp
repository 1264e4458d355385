#pragma once
// Compares two checkpoints element by element, however their state is split over ranks.

#include <cstdint>
#include <string>
#include <vector>

#include "common/io/checkpoint/checkpoint_reader.hpp"
#include "verification/compare/compare.hpp"

namespace zeroproof::verification {

struct BufferDifference {
  std::string state;  ///< "exp_avg"
  std::string tensor;
  Comparison bits;
};

struct CheckpointDifference {
  std::vector<std::string>
      words;  ///< differences outside the elements: model, step, counters, training, one line each
  std::vector<BufferDifference> buffers;  ///< that differ
  std::int64_t compared = 0, differing = 0;

  bool equal() const { return words.empty() && differing == 0; }
};

/// One MiB of each is in memory. Errors: as CheckpointReader.
CheckpointDifference compare_checkpoints(const CheckpointReader& first,
                                         const CheckpointReader& second);

/// At most 100 columns wide; 20 buffers unless all are requested.
std::string to_text(const CheckpointDifference& difference, bool all_rows);

}  // namespace zeroproof::verification
