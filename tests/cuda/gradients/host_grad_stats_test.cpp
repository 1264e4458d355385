#include <doctest.h>

#include "cuda/host/operations.hpp"
#include "tests/cuda/every_exec.hpp"
#include "tests/cuda/gradients/grad_stats_support.hpp"

namespace host_grad_stats_test {

using namespace zeroproof;
using namespace zeroproof::tests;

TEST_CASE("host: statistics of a gradient") {
  for (const Exec& exec : every_exec()) {
    check_stats(cuda::host::grad_stats, exec);
    check_stats_refused(cuda::host::grad_stats, exec);
  }
}

}  // namespace host_grad_stats_test
