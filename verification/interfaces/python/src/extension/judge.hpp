#pragma once

#include <nanobind/nanobind.h>

namespace zeroproof::python {

/// Adds the functions of zproof/judge.py: the list of operations, and the judge.
void bind_judge(nanobind::module_& module);

}  // namespace zeroproof::python
