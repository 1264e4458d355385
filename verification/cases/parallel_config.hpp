#pragma once
// How a step is dealt out over ranks, beyond its stage, world and bucket size. All of it leaves the bits alone, except
// the way leaves are added.

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
  Offload offload = {};  ///< its folder is no part of an id: a setting of the run

  /// Parts of a case id, those that are not the default: "/order:strided/layout:megatron/sum:binned/grid:2x1x2/
  /// instances:2/persistent:64/overlap/windows:params/transport:nccl/offload:0.5/offload-order:tensors/offload-place:file/
  /// offload-chunk:4096/offload-overlap:off/offload-grads:on". Empty for the defaults.
  std::string id() const;

  /// Reads one part, without its slash; false if it is none of the above. Errors (ErrorCode::config): a value that
  /// does not exist.
  bool read(const std::string& part);

  /// The grid of a world: the one that was asked for, or all ranks data parallel. Errors (ErrorCode::config): the grid
  /// or the instances do not multiply out.
  ProcessGrid grid_of(int world_size) const;
};

}  // namespace zeroproof::verification
