#pragma once
// One step of another optimizer as a safetensors file: its inputs and its results.

#include <string>
#include <vector>

#include "common/io/safetensors/safetensors_types.hpp"
#include "verification/tools/identify/dialect.hpp"

namespace zeroproof::verification {

/// The state of one parameter; vectors of buffers that the rule does not have are empty.
struct StepState {
  std::vector<float> master, exp_avg, exp_avg_sq, max_exp_avg_sq, momentum_buffer;
};

struct StepTensor {
  std::string name;                   ///< "" in a file with one parameter and no names
  std::size_t rows = 0, columns = 0;  ///< muon: the extents of the matrix
  std::vector<float> grad;
  StepState before, after;

  std::size_t numel() const { return grad.size(); }
};

struct RecordedStep {
  std::string file;
  std::string program;  ///< as in the file, "" if it is missing
  DialectHyper hyper;
  bool is_first = false;  ///< sgd with momentum, without a buffer before the step
  std::vector<StepTensor> tensors;

  std::int64_t numel() const;
};

/// Reads a step: tensors before.grad, before.master and what the rule keeps, after.* without the
/// gradient, all F32 (or BF16, F16: widened), each with .NAME behind it where there are several parameters; the settings
/// are texts of the metadata. muon: tensors have two dimensions, and a missing before.momentum_buffer is zeros.
/// Errors (ErrorCode::io, with the file's name): no such file, no safetensors; a tensor or a
/// setting that is missing, unknown, of another type or size, or out of its range.
RecordedStep read_step(const std::string& file);

/// The settings of a step from texts by their names. Errors (ErrorCode::io, with `file`): as read_step.
DialectHyper hyper_of_settings(const SafeMetadata& settings, const std::string& file);

/// Buffers that a step of this kind has, master first, without the gradient.
std::vector<std::string> step_buffers(const DialectHyper& hyper);

/// A buffer by its name.
std::vector<float>& step_buffer(StepState& state, const std::string& buffer);

}  // namespace zeroproof::verification
