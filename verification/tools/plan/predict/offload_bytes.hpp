#pragma once
// Offloaded state of a rank: how much of it, in which memory, and the transfers of a step.

#include <cstdint>
#include <vector>

#include "common/layout/flat_layout.hpp"
#include "common/step/offload.hpp"
#include "common/step/param_groups.hpp"

namespace zeroproof {

struct PredictedStep;

/// The offloaded part of a rank.
struct OffloadShape {
  Offload setting;
  std::int64_t numel = 0;     ///< padding included, and gaps in front of blocks
  std::int64_t moved = 0;     ///< without the gaps: the rank's buffers are smaller by this number
  std::int64_t elements = 0;  ///< of tensors
  std::int64_t blocks = 0;    ///< of state that have elements, if a format has scales
  std::int64_t grads =
      0;  ///< offloaded elements of the gradient sum: whole pages, padding included
};

/// ranges: what the rank keeps state for. in_blocks: a format has scales, and whole blocks alone
/// are offloaded.
OffloadShape offload_shape(const FlatLayout& layout, const std::vector<FlatRange>& ranges,
                           const Offload& offload, const ParamGroups& groups, bool in_blocks);

/// Ranges of a rank in the contract's layout.
std::vector<FlatRange> contract_ranges(const PredictedStep& shape, std::int64_t bucket_numel);

/// Bytes in memory of the host, including the buffers that chunks pass through, and in the file.
std::int64_t offloaded_host_bytes(const PredictedStep& shape);
std::int64_t offloaded_file_bytes(const PredictedStep& shape);

/// Bytes of one applied step, in two passes.
struct OffloadTraffic {
  std::int64_t grads_down = 0;  ///< from a device to the host
  std::int64_t params_up = 0;   ///< from the host to a device
  std::int64_t file_read = 0;
  std::int64_t file_written = 0;
};
OffloadTraffic offload_traffic(const PredictedStep& shape);

}  // namespace zeroproof
