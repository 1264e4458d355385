// Two ranks on one device, which NCCL refuses by default: the ranks that share it report the
// reason, and the others wait no longer than their limit.

#include <doctest.h>

#include <cstdlib>

#include "tests/cuda/comm/nccl/nccl_support.hpp"

namespace nccl_devices_test {

using namespace zeroproof;
using namespace zeroproof::nccl_test;

namespace {

constexpr const char* variable = "NCCL_MULTI_RANK_GPU_ENABLE";

/// There are two devices: rank 2 uses that of rank 0.
void join(Communicator& control) {
  cuda::device::choose_device(control.rank());
  const auto comm = cuda::make_nccl_communicator(control, fake(), short_limit);
  comm->barrier();
}

void check_refused(const Outcome& outcome) {
  const std::string others[] = {"ranks 0 and 2 on device 0", "", "ranks 2 and 0 on device 0"};
  for (const std::size_t rank : {0, 2}) {
    CHECK(outcome.codes[rank] == ErrorCode::unavailable);
    contains(outcome.texts[rank],
             "rank " + std::to_string(rank) +
                 " could not join nccl:3 (NCCL says: invalid usage: Duplicate GPU "
                 "detected: " +
                 others[rank] + "); use one device per rank, or --transport copies");
    contains(outcome.texts[rank], "or set NCCL_MULTI_RANK_GPU_ENABLE=1 for NCCL 2.30 or later");
  }
  contains(outcome.texts[1], "could not join nccl:3 (NCCL says: invalid usage: Duplicate GPU");
  contains(outcome.root_cause, "could not join nccl:3");
}

}  // namespace

TEST_CASE("nccl devices: two ranks on one device are refused, and the third reports it") {
  ::unsetenv(variable);
  const UsePlan plan("ranks_per_device=1");
  check_refused(run_failing(3, join));
  CHECK(run_failing(2, join).root_cause.empty());  // on one each
  CHECK(complaints().empty());
}

TEST_CASE("nccl devices: an environment variable allows it, from 2.30 on") {
  ::setenv(variable, "1", 1);
  {
    const UsePlan plan("ranks_per_device=1,version=2.30.3");
    CHECK(run_failing(3, join).root_cause.empty());
  }
  const UsePlan plan("ranks_per_device=1,version=2.29.7");
  check_refused(run_failing(3, join));
  ::unsetenv(variable);
  CHECK(complaints().empty());
}

}  // namespace nccl_devices_test
