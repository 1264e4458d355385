#pragma once

#include <nanobind/nanobind.h>

namespace zeroproof::python {

/// hint(dtype, want, got, before, others, factors) -> str: verification/compare/hint over bytes of arrays.
void bind_hints(nanobind::module_& module);

}  // namespace zeroproof::python
