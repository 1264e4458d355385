#pragma once
// A quantized model in a safetensors file: it is whole, or not there.
//
//   NAME              codes: I8 (int8; int4 too, one in a byte), F8_E4M3, F8_E5M2, or BF16, F16; in the shape of the
//                     parameter
//   NAME.scale        F32 [num_blocks]: one for the tensor, or for every place on the payload's axis. An integer code
//                     decodes to code / scale, one of fp8 for code * (1 / scale), both fp32, one rounding per operation
//   NAME.input_scale  F32 [1]: the same of the inputs of a linear layer
//   NAME.smooth       F32 [inputs]: SmoothQuant's factors; inputs are multiplied by them, the weight was divided
//
// Vectors, and tensors that no rule turned on, are as they were. Metadata: quantized (the format's
// version), contract_version, source, workload, payloads (JSON by tensor), calibration (JSON:
// windows, digest of the text, histogram). Nothing in it depends on ranks, so files of different
// ranks have equal bytes.

#include <string>

#include "verification/tools/quantize/calibration/quantize_job.hpp"

namespace zeroproof::verification {

/// Errors: io if the file cannot be written; an existing file then stays unchanged.
void write_quantized_file(const std::string& path, const QuantizeJob& job,
                          const QuantizeResult& result);

}  // namespace zeroproof::verification
