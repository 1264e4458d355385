#pragma once

#include "verification/interfaces/python/src/extension/binding.hpp"

namespace zeroproof::python {

/// Adds the function of zproof/step.py: a step of the sharded reference.
void bind_step(py::Module& module);

}  // namespace zeroproof::python
