#pragma once

#include "verification/interfaces/python/src/extension/binding.hpp"

namespace zeroproof::python {

/// hint(dtype, want, got, before, others, factors) -> str: verification/compare/hint over bytes of arrays.
void bind_hints(py::Module& module);

}  // namespace zeroproof::python
