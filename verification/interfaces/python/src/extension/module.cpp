// zproof._zproof: functions called by the Python sources of the package. Private to the package.

#include <nanobind/nanobind.h>

#include "verification/cli/program/contract_version.hpp"
#include "verification/interfaces/plugin/confinement.hpp"
#include "verification/interfaces/python/src/extension/errors.hpp"
#include "verification/interfaces/python/src/extension/guarded_calls.hpp"
#include "verification/interfaces/python/src/extension/hints.hpp"
#include "verification/interfaces/python/src/extension/judge.hpp"
#include "verification/interfaces/python/src/extension/reference_ops.hpp"
#include "verification/interfaces/python/src/extension/step.hpp"
#include "verification/interfaces/python/src/extension/tensor_files.hpp"

NB_MODULE(_zproof, module) {
  zeroproof::python::translate_errors();
  module.attr("version") = ZP_VERSION;
  module.attr("contract_version") = zeroproof::verification::contract_version;
  zeroproof::python::bind_reference(module);
  zeroproof::python::bind_guarded_calls(module);
  zeroproof::python::bind_judge(module);
  module.def("forbid_others", &zeroproof::verification::forbid_others);
  module.def("landlock_version", &zeroproof::verification::landlock_version);
  zeroproof::python::bind_step(module);
  zeroproof::python::bind_hints(module);
  zeroproof::python::bind_tensor_files(module);
}
