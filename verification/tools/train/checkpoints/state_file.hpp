#pragma once
// Exports the state of a training as one safetensors file that every library reads; imports it.
//
//   <buffer>.<parameter>                    F32, the parameter's shape: master, exp_avg, exp_avg_sq, max_exp_avg_sq,
//                                           momentum_buffer; what a step reads
//   <buffer>_code.<parameter>               F16 or F8_E4M3, the parameter's shape, and
//   <buffer>_scale.<parameter>              F32 [num_blocks], scale_inv: the stored form (R25) of a buffer that is kept
//                                           as codes with scales
//   step                                    I64: updates that were applied (PyTorch's "step")
//   log2_loss_scale, growth_tracker, hysteresis_left   I32, the loss scaler
//   tensor_steps                            U64 [num_tensors], under missing_grad = skip
//   param_scale, amax_history               F32 [num_blocks], U32 [num_blocks * history]: of parameters in 8 bits (R24)

#include <string>

#include "common/io/checkpoint/checkpoint_reader.hpp"

namespace zeroproof::verification {

/// Errors: io as SafetensorsWriter; damaged as CheckpointReader.
void export_state(const CheckpointReader& checkpoint, const std::string& file);

/// Writes a checkpoint into `folder` with the state of the file, and everything else from `like`;
/// `step`: the number of steps that led to it. Values of the loss scaler that the file does not
/// have stay as in `like`. State that `like` keeps as codes with scales is taken bit for bit where
/// the file has both, and is otherwise encoded again from its values (R25, Loading). Returns the
/// label of the checkpoint. Errors: config, if the file does not have the buffers, shapes and
/// counts of `like`, or has more, or has values that are not finite (unless they are allowed) or
/// not their codes times their scales; the message names the first one; io.
std::string import_state(const std::string& file, const CheckpointReader& like, std::int64_t step,
                         const std::string& folder, bool allow_nonfinite = false,
                         Disk& disk = system_disk());

}  // namespace zeroproof::verification
