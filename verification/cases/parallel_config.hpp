#pragma once
// The parallel configuration of a step beyond stage, world and bucket size. It does not change
// bits, except by the order in which gradients are added.

#include <cstdint>
#include <optional>
#include <string>

#include "common/layout/peer_layouts.hpp"
#include "common/layout/process_grid.hpp"
#include "common/step/offload.hpp"
#include "common/step/policy.hpp"

namespace zeroproof::verification {

struct ParallelConfig {
  MicroBatchOrder order = MicroBatchOrder::by_stage;
  LayoutKind layout = LayoutKind::contract;
  GradSum grad_sum = GradSum::tree;
  std::optional<ProcessGrid> grid;  ///< none: every rank is data parallel
  int instances = 1;
  std::int64_t persistent_numel = 0;
  bool overlap = false;
  Windows windows = Windows::off;
  Transport transport = Transport::copies;
  Offload offload = {};  ///< its folder is a setting of the run, not part of an id

  /// Non-default parts of a case id: "/order:strided/layout:megatron/sum:binned/grid:2x1x2/
  /// instances:2/persistent:64/overlap/windows:params/transport:nccl/offload:0.5/
  /// offload-order:tensors/offload-place:file/offload-chunk:4096/offload-overlap:off/
  /// offload-grads:on". Empty for the defaults.
  std::string id() const;

  /// Parses one part without its slash; false if it is none of the above. Errors
  /// (ErrorCode::config): an invalid value.
  bool read(const std::string& part);

  /// The configured grid, or all ranks of the world data parallel. Errors (ErrorCode::config): the
  /// grid or the instances do not multiply out.
  ProcessGrid grid_of(int world_size) const;
};

}  // namespace zeroproof::verification
