#pragma once
// A checkpoint as the state from which a rank resumes, for any number of ranks that wrote it.

#include <vector>

#include "common/io/checkpoint/checkpoint_reader.hpp"
#include "common/layout/flat_layout.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "common/step/state_source.hpp"

namespace zeroproof {

/// Scales of 8-bit parameters (R24), for the blocks of all tensors; both are empty for other
/// formats.
struct SavedScales {
  std::vector<float> param_scale;
  std::vector<std::uint32_t> amax_history;
};

/// Reads them from the "state" of a manifest that was read (CheckpointManifest).
SavedScales saved_scales(const Json& state);

class CheckpointState final : public StateSource {
 public:
  /// reader, setup, whole: must outlive this object. whole: the undistributed layout; setup.layout
  /// has the same tensors, or the TP rank's part of each. Errors: config, if the checkpoint belongs
  /// to another model (naming the first tensor that differs), or lacks state that the setup's rule
  /// keeps, or has more; damaged, if values that a step needs are missing.
  CheckpointState(const CheckpointReader& reader, const OptimizerSetup& setup,
                  const FlatLayout& whole);

  std::int64_t applied_steps() const override { return applied_steps_; }
  LossScalerState scaler() const override { return scaler_; }
  std::vector<std::uint64_t> tensor_steps() const override { return tensor_steps_; }
  std::vector<float> param_scale() const override { return scales_.param_scale; }
  std::vector<std::uint32_t> amax_history() const override { return scales_.amax_history; }
  bool has(BufferId id) const override;
  void read(BufferId id, std::int64_t begin, Span<float> target) const override;

 private:
  void require_same_model(const FlatLayout& whole) const;
  void require_same_state() const;
  void require_same_scales(const FlatLayout& whole) const;
  /// begin counts blocks of the undistributed numbering (R25), of one tensor or several.
  void read_scales(BufferId id, std::int64_t begin, Span<float> target) const;

  const CheckpointReader& reader_;
  const OptimizerSetup& setup_;
  const FlatLayout& whole_;
  std::int64_t applied_steps_ = 0;
  LossScalerState scaler_;
  std::vector<std::uint64_t> tensor_steps_;
  SavedScales scales_;
};

/// The values that CheckpointState reads besides elements, for "state" in the manifest's "about".
/// Scales and histories are strings of eight hexadecimal digits per value, and are left out where
/// there are none.
Json counters_json(std::int64_t applied_steps, const LossScalerState& scaler,
                   const std::vector<std::uint64_t>& tensor_steps, const SavedScales& scales = {});

/// The same of an optimizer. storage: optimizer.storage().
Json counters_json(const DistributedOptimizer& optimizer, const StepSettings& settings,
                   const std::vector<ExposedBuffer>& storage);

}  // namespace zeroproof
