#pragma once

#include <nanobind/nanobind.h>

namespace zeroproof::python {

/// Adds what zproof/step.py calls: a step of the sharded reference.
void bind_step(nanobind::module_& module);

}  // namespace zeroproof::python
