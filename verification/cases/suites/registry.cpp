// The list of all suites.

#include "verification/cases/suites/selection.hpp"
#include "verification/comm/comm_suite.hpp"
#include "verification/faults/controls/control_suite.hpp"
#include "verification/ops/op_suite.hpp"
#include "verification/training/lbfgs/lbfgs_suite.hpp"
#include "verification/training/resume/resume_suite.hpp"
#include "verification/training/training_suite.hpp"

namespace zeroproof::verification {

const Suites& all_suites() {
  static const Suites suites = {&training_suite(), &op_suite(),   &lbfgs_suite(),
                                &resume_suite(),   &comm_suite(), &control_suite()};
  return suites;
}

}  // namespace zeroproof::verification
