#pragma once

#include <vector>

#include "cuda/comm/exchange/comm_groups.hpp"
#include "cuda/comm/memory/space_array.hpp"
#include "cuda/device/step/scale_passes.hpp"
#include "cuda/optimizer/state/local_step.hpp"

namespace zeroproof::cuda {

/// Phase cast of 8-bit parameters over device memory (R24), as three pieces of work without host
/// reads in between: of parameters, or of columns with their own scales. memory: of the step.
class DeviceScales {
 public:
  /// shard.scales has arrays. Objects referenced by the shard and the comm_groups must outlive
  /// this.
  DeviceScales(const RankShard& shard, const CommGroups& comm_groups);

  /// Codes of a loaded state; for a new state also its scales, for which ranks communicate, and
  /// masters if the setup requests them.
  void load(const FullState& state, device::StepMemory memory);

  /// Largest magnitudes of this rank's masters, and of the offloaded ones.
  void collect(const device::StepMemory& memory) const;
  /// Whether other ranks have other elements.
  bool joins() const;
  /// The maxima over all ranks of an instance: collective over comm (from stage 1 on) and tp.
  void join() const;
  /// Scales and codes. Does nothing in a skipped step, or after a halt.
  void make(device::StepMemory memory) const;

 private:
  /// Adjacent masters of the shard: all of them, or a range that is not offloaded.
  struct Part {
    std::int64_t begin = 0;  ///< in a table of pieces
    std::int64_t count = 0;
    std::int64_t shift = 0;  ///< add to a master's index for its location
  };
  struct Table {
    std::vector<device::ScalePiece> pieces;
    std::vector<Part> parts;
  };
  static Table table_of(const RankShard& shard);
  /// Calls body(memory of the step, scales) for the masters of every part.
  template <class Body>
  void for_parts(const device::StepMemory& memory, const Body& body) const;

  const OptimizerSetup& setup_;
  const CommGroups comm_groups_;
  ParamScales& scales_;
  void* const codes_;  // [shard_numel] of the shard; those of memory are of parameters
  const device::ScaleRules rules_;
  const Table table_;
  SpaceArray<device::ScalePiece> pieces_;
  SpaceArray<std::int64_t> first_blocks_;  // [num_tensors]
  device::ScaleMemory memory_;
};

}  // namespace zeroproof::cuda
