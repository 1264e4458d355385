#pragma once
// The state between a library's whole steps: the buffers of the rule, and the parameters.

#include <vector>

#include "cuda/optimizer/state/tensor_steps.hpp"
#include "verification/interfaces/plugin/cut_buffer.hpp"

namespace zeroproof::verification {

class StepState {
 public:
  /// setup outlives this.
  explicit StepState(const OptimizerSetup& setup);

  /// The rule's buffers in the order of R6, then master.
  std::vector<CutBuffer>& buffers() { return buffers_; }
  CutBuffer& param() { return param_; }
  /// As the model uses them, [padded_numel].
  const GuardedBuffer& param_full() const { return param_full_; }

  /// All buffers of any rule, in the order of R6; a buffer that this rule does not keep has no
  /// elements.
  std::vector<std::pair<BufferId, TensorView>> all_whole() const;

  /// Fills everything from the undistributed state, the parameters rounded from master. steps: as
  /// loaded.
  void load(const FullState& state, const cuda::TensorSteps& steps);
  /// Assembles whole buffers from the ranks' parts. Collective.
  void gather();
  /// Copies this rank's parts, and the full parameters, from the whole buffers.
  void keep_own();

 private:
  void round(const Piece& piece, const cuda::TensorSteps& steps);

  const OptimizerSetup& setup_;
  std::vector<CutBuffer> buffers_;
  CutBuffer param_;
  GuardedBuffer param_full_;
};

}  // namespace zeroproof::verification
