#pragma once

#include <nanobind/nanobind.h>

namespace zeroproof::python {

/// Adds the function of zproof/step.py: a step of the sharded reference.
void bind_step(nanobind::module_& module);

}  // namespace zeroproof::python
