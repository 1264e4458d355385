#pragma once
// The parameters of a byte_gpt in a safetensors file.

#include <string>
#include <vector>

#include "common/io/safetensors/safetensors_types.hpp"
#include "common/layout/flat_layout.hpp"
#include "verification/model/byte_gpt.hpp"

namespace zeroproof::verification {

struct ModelFile {
  std::string path, workload;
  workload::ByteGptShape shape;
  FlatLayout layout;
  std::vector<float> params;      ///< [padded_numel], padding +0
  std::vector<SafeDType> dtypes;  ///< of each tensor, as the file has it: F32, BF16 or F16

  Span<const float> tensor(std::size_t index) const {
    const TensorSlot& slot = layout.tensors()[index];
    return Span<const float>(params).subspan(slot.begin, slot.numel);
  }
};

/// Tensors by the names of the workload, or by those of a dump ("param.STEP.NAME", of its last
/// step; other tensors of a dump are ignored). Names and shapes must be those of a workload.
/// Errors: ErrorCode::config if the file is quantized already, a recording, or no model of a
/// workload, naming what is missing or of another shape; ErrorCode::nonfinite if a parameter is
/// infinite or NaN; ErrorCode::io.
ModelFile read_model_file(const std::string& path);

}  // namespace zeroproof::verification
