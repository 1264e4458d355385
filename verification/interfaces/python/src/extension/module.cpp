// zproof._zproof: functions called by the Python sources of the package. Private to the package.

#include "verification/cli/program/contract_version.hpp"
#include "verification/interfaces/plugin/confinement.hpp"
#include "verification/interfaces/python/src/extension/binding.hpp"
#include "verification/interfaces/python/src/extension/digests.hpp"
#include "verification/interfaces/python/src/extension/guarded_calls.hpp"
#include "verification/interfaces/python/src/extension/hints.hpp"
#include "verification/interfaces/python/src/extension/judge.hpp"
#include "verification/interfaces/python/src/extension/reference_ops.hpp"
#include "verification/interfaces/python/src/extension/step.hpp"
#include "verification/interfaces/python/src/extension/tensor_files.hpp"

namespace zeroproof::python {
namespace {

/// For a child of the judge, which replaces its program afterwards.
void forbid_others() { verification::forbid_others(verification::landlock_rules()); }

void fill(py::Module& module) {
  module.set("version", ZP_VERSION);
  module.set("contract_version", verification::contract_version);
  bind_reference(module);
  bind_guarded_calls(module);
  bind_judge(module);
  module.def<&forbid_others>("forbid_others");
  module.def<&verification::landlock_version>("landlock_version");
  bind_step(module);
  bind_hints(module);
  bind_tensor_files(module);
  bind_digests(module);
}

}  // namespace
}  // namespace zeroproof::python

PyMODINIT_FUNC PyInit__zproof() {
  static PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                   "zproof._zproof",
                                   nullptr,
                                   -1,
                                   nullptr,
                                   nullptr,
                                   nullptr,
                                   nullptr,
                                   nullptr};
  try {
    zeroproof::py::Object object = zeroproof::py::Object::take(PyModule_Create(&definition));
    zeroproof::py::Module module(object);
    zeroproof::python::fill(module);
    return object.release();
  } catch (...) {
    zeroproof::py::translate_exception();
    return nullptr;
  }
}
