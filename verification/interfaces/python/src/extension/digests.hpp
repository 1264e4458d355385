#pragma once

#include "verification/interfaces/python/src/extension/binding.hpp"

namespace zeroproof::python {

/// Digests of memory that belongs to other libraries.
void bind_digests(py::Module& module);

}  // namespace zeroproof::python
