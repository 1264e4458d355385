#pragma once

#include <nanobind/nanobind.h>

namespace zeroproof::python {

/// write_tensors(path, [(name, dtype, shape, bytes)], metadata) and read_tensors(path) -> the same
/// and the metadata: safetensors files by common/io, which validates every file.
void bind_tensor_files(nanobind::module_& module);

}  // namespace zeroproof::python
