#include <doctest.h>

#include "cuda/host/operations.hpp"
#include "tests/cuda/every_exec.hpp"
#include "tests/cuda/gradients/grad_stats_support.hpp"

namespace host_grad_stats_test {

using namespace zeroproof;
using namespace zeroproof::tests;

TEST_CASE("host: statistics of a gradient, counted by hand") {
  for (const Exec& exec : every_exec()) {
    check_stats_by_hand(cuda::host::grad_stats, exec);
    check_stats_of_sizes(cuda::host::grad_stats, exec);
    check_stats_refused(cuda::host::grad_stats, exec);
  }
}

}  // namespace host_grad_stats_test
