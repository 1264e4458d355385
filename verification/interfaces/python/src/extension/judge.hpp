#pragma once

#include "verification/interfaces/python/src/extension/binding.hpp"

namespace zeroproof::python {

/// Adds the functions of zproof/judge.py: the list of operations, and the judge.
void bind_judge(py::Module& module);

}  // namespace zeroproof::python
