#pragma once

#include "verification/interfaces/python/src/extension/binding.hpp"

namespace zeroproof::python {

/// write_tensors(path, [(name, dtype, shape, bytes)], metadata) and read_tensors(path) -> the same
/// and the metadata: safetensors files by common/io, which validates every file.
void bind_tensor_files(py::Module& module);

}  // namespace zeroproof::python
