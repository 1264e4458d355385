#pragma once

#include <nanobind/nanobind.h>

namespace zeroproof::python {

/// Adds what zproof/judge.py calls: the operations there are, and the judge itself.
void bind_judge(nanobind::module_& module);

}  // namespace zeroproof::python
