#pragma once
// The contents of a dump: numbers of some steps of the undistributed optimizer, tensor by tensor.
//
//   <buffer>.<step>.<parameter>   master (F32), the rule's state (F32: exp_avg, exp_avg_sq, max_exp_avg_sq,
//                                 momentum_buffer), param and, with columnwise, param_columns (the parameter dtype), in
//                                 the parameter's shape, columns by rows where that is transposed: no padding
//   orthogonal.<step>.<parameter> of the rule muon (F32): results of Newton-Schulz, +0 for tensors that are no matrices
//   grad_sum, grad                with --dump-gradients, and in a file of --expect: G, times the loss scale and the divisor
//                                 (F32), and the clipped gradient (NaN if the step was skipped), in the parameter's shape
//   <scales>.<step>.<parameter>   with parameters of 8 bits (R24), in blocks down by blocks across: amax (U32, bits),
//                                 param_scale, param_scale_inv (F32), under delayed amax_history (U32, slots last);
//                                 with columns that have their own column_amax, column_scale, column_scale_inv
//   <buffer>_scale.<step>.<parameter>
//                                 with the state's codes alone (R25): scale_inv (F32) of each of its blocks; the buffer
//                                 then has its codes' type
//   <scalar>.<step>               step_scalars.<word> [groups, or tensors under missing_grad = skip], log2_loss_scale
//                                 (I32; the leaves were multiplied by its power of two), found_inf (U32), skipped
//                                 (BOOL), grad_norm (F64) and clip_coef (F32), both NaN if the step was skipped,
//                                 trust_ratio (F32, of every tensor, of rules that have it),
//                                 applied_steps (U64; t), tensor_steps (U64, under missing_grad = skip)
//
// Steps count from 1; all values are those after the step. Only the first state of a run may be of
// step 0 (expected.hpp): growth_tracker and hysteresis_left (I32) as well, and log2_loss_scale is
// that of step 1's leaves.

#include <cstdint>
#include <string>
#include <vector>

#include "common/io/safetensors/safetensors_types.hpp"
#include "common/step/state_format.hpp"
#include "reference/dense_optimizer.hpp"
#include "verification/cases/experiment.hpp"

namespace zeroproof::verification {

/// A kind of number that every step has.
struct DumpBuffer {
  std::string name;  ///< "master", "grad_norm", "step_scalars.step_size"
  BufferId id = BufferId::master;
  SafeDType dtype = SafeDType::f32;
  bool per_parameter = false;       ///< a tensor for every parameter; else one for the step
  std::vector<std::int64_t> shape;  ///< of the one tensor of a step; of scales the values per block
  std::int64_t word = -1;           ///< of step_scalars
  bool start_only = false;          ///< of step 0 alone
  const TensorBlocks* blocks = nullptr;  ///< per parameter, and of it one for every block

  /// Whether its tensors have the parameter's elements in their order.
  bool has_elements() const {
    return per_parameter && blocks == nullptr && id != BufferId::param_columns &&
           !is_state_scale(id);
  }
};

/// One tensor of a dump.
struct DumpTensor {
  SafeTensorSpec spec;
  std::size_t buffer = 0;       ///< into DumpPlan::buffers()
  std::int64_t step = 0;        ///< from 1; 0 is the state before the first step
  std::int64_t parameter = -1;  ///< into the layout's tensors
};

class DumpPlan {
 public:
  /// State that is not kept in fp32 is dumped as the values that the next step reads, or as stored:
  /// codes, and scales if the format has them. gradients: values, and grad_sum and grad.
  enum class Content : std::uint8_t { values, codes, gradients };
  explicit DumpPlan(const Experiment& experiment, Content content = Content::values);
  DumpPlan(const DumpPlan&) = delete;  // buffers refer to its blocks
  DumpPlan& operator=(const DumpPlan&) = delete;

  /// In the order of computation in a step: scalars, norm, moments, master, parameters.
  const std::vector<DumpBuffer>& buffers() const { return buffers_; }

  /// Of these steps: step by step, buffer by buffer, parameter by parameter.
  std::vector<DumpTensor> tensors(const std::vector<std::int64_t>& steps) const;

  /// The bytes of a tensor after the last step of the optimizer.
  std::vector<std::byte> bytes_of(const DumpTensor& tensor,
                                  const reference::DenseOptimizer& optimizer) const;

  /// The same for the tensor of a parameter, from a whole buffer: [padded_numel], or of all blocks.
  Span<const std::byte> part_of(const DumpTensor& tensor, const TensorView& whole) const;

  const FlatLayout& layout() const { return layout_; }

 private:
  void add_scales(const StepSettings& settings);
  SafeTensorSpec spec_of(const DumpBuffer& buffer, std::int64_t step, std::int64_t parameter) const;

  const FlatLayout& layout_;
  TensorBlocks blocks_, column_blocks_;  ///< of parameters in 8 bits
  bool transposed_ = false;              ///< param_columns
  std::vector<DumpBuffer> buffers_;
};

/// "master.3.head.weight"; of a scalar, whose parameter is "", "grad_norm.3".
std::string dump_name(const std::string& buffer, std::int64_t step,
                      const std::string& parameter = "");

}  // namespace zeroproof::verification
