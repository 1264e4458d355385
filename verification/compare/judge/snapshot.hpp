#pragma once
// The undistributed state between two steps, with memory of its own.

#include <cstdint>
#include <vector>

#include "common/base/digest.hpp"
#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::verification {

/// Everything that survives a step, undistributed (FullState), with memory of its own.
struct Snapshot {
  std::vector<float> master;          // [padded_numel] or empty
  PerSlot<std::vector<float>> slots;  // [padded_numel] or empty
  /// Scales of the slots' blocks (R25), for formats with scales: the values above are then codes,
  /// widened.
  PerSlot<std::vector<float>> slot_scales;
  std::vector<std::uint64_t> tensor_steps;  // [num_tensors] or empty
  std::vector<float> param_scale;           // [num_blocks] or empty
  std::vector<std::uint32_t> amax_history;  // [num_blocks * history] or empty
  std::int64_t applied_steps = 0;
  LossScalerState scaler;

  Snapshot() = default;
  explicit Snapshot(const FullState& state);

  /// Views of this object.
  FullState full() const;

  /// The buffer of that name, values or scales; nullptr if it is no state of a rule.
  std::vector<float>* buffer(BufferId id);

  /// Digest of all values by tensor and element, independent of the layout; NaN canonical.
  Digest digest(const FlatLayout& layout) const;
};

}  // namespace zeroproof::verification
