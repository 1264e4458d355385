// The cause of calls that did not end, from the call histories of the ranks. No device takes part.

#include <doctest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/comm/threads.hpp"
#include "cuda/comm/nccl_calls.hpp"
#include "cuda/comm/nccl_cause.hpp"

namespace nccl_cause_test {

using namespace zeroproof;
using cuda::find_cause;
using cuda::NcclCalls;
using cuda::NcclCause;

namespace {

constexpr int ranks = 3;

/// A rank's calls: broadcasts from root 0 of as many bytes as their number, with one exception; and
/// how many have ended.
struct Said {
  std::int64_t made, ended, other_root_at = -1;
};

std::vector<std::int64_t> numbers_of(const Said& said, int rank) {
  std::vector<std::int64_t> numbers = {said.made, said.ended};
  for (std::int64_t n = said.made > NcclCalls::kept ? said.made - NcclCalls::kept + 1 : 1;
       n <= said.made; ++n) {
    const std::int64_t root = n == said.other_root_at ? 1 : 0;
    const std::int64_t sent = rank == root ? n : 0;
    numbers.insert(numbers.end(), {static_cast<std::int64_t>(Collective::broadcast), 0, root, n});
    numbers.insert(numbers.end(), {sent, sent, sent, root == 0 ? n : 0, root == 1 ? n : 0, 0});
  }
  numbers.resize(2 + NcclCalls::kept * (4 + 2 * ranks), 0);
  return numbers;
}

void check_cause(const std::vector<Said>& said, bool found, const std::string& begin) {
  ThreadWorld world(ranks);
  run_ranks(world, [&](Communicator& control) {
    const auto rank = control.rank();
    const NcclCause cause =
        find_cause(control, numbers_of(said[rank], rank), "nccl:3", std::chrono::milliseconds(200));
    const std::string text = cause.error.what();
    CAPTURE(text);
    CHECK(cause.found == found);
    CHECK(text.rfind(begin, 0) == 0);
  });
}

}  // namespace

TEST_CASE("nccl cause: absent ranks, disagreements and devices that hang") {
  check_cause({{5, 4}, {4, 4}, {5, 4}}, true,
              "rank 1 did not arrive at broadcast #5 from root 0 within 200 ms (");
  check_cause({{7, 4}, {4, 4}, {4, 4}}, true,
              "ranks 1 and 2 did not arrive at broadcast #5 from root 0 within");
  check_cause({{5, 4}, {5, 4, 5}, {5, 4}}, true,
              "the ranks are not in the same collective: ranks 0 and 2 call broadcast #5 from root "
              "0, rank 1 calls "
              "broadcast #5 from root 1");
  check_cause({{5, 4}, {5, 5}, {5, 4}}, false,
              "broadcast #5 from root 0 of nccl:3 did not end on ranks 0 and 2 within");
  check_cause({{6, 4}, {5, 5}, {6, 4}}, false,
              "broadcast #5 from root 0 of nccl:3 did not end on ranks 0 and 2 within");
  check_cause({{5, 5}, {5, 5}, {5, 5}}, false,
              "the awaited work did not end within 200 ms, though nccl:3 has");
  check_cause({{0, 0}, {0, 0}, {0, 0}}, false,
              "the awaited work did not end within 200 ms, though nccl:3 has");
}

TEST_CASE("nccl cause: calls that a rank no longer keeps are not counted as missing") {
  check_cause({{100, 36}, {10, 10}, {100, 36}}, true,
              "rank 1 did not arrive at broadcast #37 from root 0 within");
  check_cause({{100, 36}, {20, 10}, {100, 36}}, false,
              "broadcast #11 from root 0 of nccl:3 did not end on rank 1");
}

}  // namespace nccl_cause_test
