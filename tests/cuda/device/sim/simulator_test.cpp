// The simulated device detects its defects: each one is planted in a small kernel.

#include <doctest.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "tests/cuda/expect_error.hpp"

namespace simulator_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::cuda::device;
using tests::expect_error;

constexpr int block = 64;

template <class... Parameters, class... Arguments>
void run_now(void (*kernel)(Parameters...), int grid, int threads, const Arguments&... args) {
  launch(kernel, grid, threads, args...);
  wait_for_stream();
}

/// Adds the numbers of all threads in every supported way; totals: [3].
ZP_KERNEL sum_kernel(unsigned* totals, double* block_totals) {
  ZP_SHARED_ARRAY(unsigned, total, 1);
  ZP_SHARED_ARRAY(double, warp_totals, block / 32);
  const unsigned self = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) total[0] = 0;
  __syncthreads();
  atomicAdd(&total[0], self);
  double value = self;
  for (unsigned w = 16; w > 0; w /= 2) value = value + __shfl_down_sync(0xFFFFFFFFU, value, w);
  if (threadIdx.x % 32 == 0) warp_totals[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(&totals[0], total[0]);
    atomicMax(&totals[1], self);
    atomicOr(&totals[2], 1U << (blockIdx.x % 32));
    block_totals[blockIdx.x] = warp_totals[0] + warp_totals[1];
  }
}

/// totals: [grid * block / 32]. Every lane adds the largest value of its warp, three times: from
/// another lane each time, and a lane may be one round ahead of its neighbours.
ZP_KERNEL largest_kernel(unsigned* totals) {
  const unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  for (unsigned time = 1; time <= 3; ++time) {
    const unsigned mine = lane == 11 * (warp + time) % 32 ? 1000 * time + warp : lane;
    atomicAdd(&totals[warp], __reduce_max_sync(0xFFFFFFFFU, mine));
  }
}

ZP_KERNEL partial_largest_kernel() { __reduce_max_sync(0xFFFFU, 1U); }

ZP_KERNEL unequal_barriers_kernel() {
  if (threadIdx.x != 5) __syncthreads();
}

ZP_KERNEL two_barriers_kernel() {
  // NOLINTNEXTLINE(bugprone-branch-clone): two barriers
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

ZP_KERNEL half_a_warp_kernel() {
  if (threadIdx.x % 32 < 16) __shfl_down_sync(0xFFFFFFFFU, 1.0F, 1);
}

ZP_KERNEL partial_mask_kernel() { __shfl_down_sync(0xFFFFU, 1, 1); }

ZP_KERNEL shared_overrun_kernel() {
  ZP_SHARED_ARRAY(unsigned, array, block - 1);
  unsigned* values = array;  // a sanitizer would report it first otherwise
  values[threadIdx.x] = 7;
}

ZP_KERNEL overrun_kernel(unsigned* values) { values[threadIdx.x] = 7; }

ZP_KERNEL throwing_kernel() {
  __syncthreads();
  if (threadIdx.x == 33) throw std::runtime_error("thread 33");
  __syncthreads();
}

/// Outputs the initial content of shared memory.
ZP_KERNEL unwritten_kernel(double* value) {
  ZP_SHARED_ARRAY(double, slot, 1);
  if (threadIdx.x == 1) *value = slot[0];
  __syncthreads();
  slot[0] = 1;
}

/// The last writer determines the result: a defect that a single order of threads would hide.
ZP_KERNEL last_wins_kernel(unsigned* value) { *value = threadIdx.x; }

/// Every thread reads its neighbour's value; without the barrier in between, it may not be written
/// yet.
template <bool barrier>
ZP_KERNEL neighbour_kernel(double* values) {
  ZP_SHARED_ARRAY(double, slots, block);
  slots[threadIdx.x] = threadIdx.x;
  if (barrier) __syncthreads();
  values[threadIdx.x] = slots[(threadIdx.x + 1) % block];
}

}  // namespace

TEST_CASE("simulator: atomics, shared memory, barriers and shuffles") {
  for (const int grid : {1, 2, 7}) {
    CAPTURE(grid);
    const unsigned n = static_cast<unsigned>(grid * block);
    for (int order = 0; order < 6; ++order) {
      std::vector<unsigned> totals(3);
      std::vector<double> block_totals(grid);
      run_now(sum_kernel, grid, block, totals.data(), block_totals.data());
      CHECK(totals[0] == n * (n - 1) / 2);
      CHECK(totals[1] == n - block);
      CHECK(totals[2] == (1U << grid) - 1);
      for (unsigned b = 0; b < static_cast<unsigned>(grid); ++b) {
        CHECK(block_totals[b] == b * block * block + block * (block - 1) / 2);
      }
    }
  }
}

TEST_CASE("simulator: every lane of a warp gets the largest value, in any order") {
  for (int order = 0; order < 3; ++order) {
    std::vector<unsigned> totals(2 * block / 32);
    run_now(largest_kernel, 2, block, totals.data());
    for (unsigned warp = 0; warp < totals.size(); ++warp)
      CHECK(totals[warp] == 32 * (6000 + 3 * warp));
  }
}

TEST_CASE("simulator: deadlocked threads are reported, and the next launch works") {
  for (int order = 0; order < 3; ++order) {
    expect_error(ErrorCode::internal, [] { run_now(unequal_barriers_kernel, 2, block); });
    expect_error(ErrorCode::internal, [] { run_now(two_barriers_kernel, 1, block); });
    expect_error(ErrorCode::internal, [] { run_now(half_a_warp_kernel, 1, block); });
    expect_error(ErrorCode::internal, [] { run_now(partial_mask_kernel, 1, block); });
    expect_error(ErrorCode::internal, [] { run_now(partial_largest_kernel, 1, block); });
    CHECK_THROWS_AS(run_now(throwing_kernel, 1, block), std::runtime_error);
    unsigned last = block;
    run_now(last_wins_kernel, 1, block, &last);
    CHECK(last < block);
  }
}

TEST_CASE("simulator: writes outside shared arrays and buffers are reported") {
  expect_error(ErrorCode::internal, [] { run_now(shared_overrun_kernel, 1, block); });
  std::vector<unsigned> host(block);
  const std::int64_t num_bytes = (block - 1) * 4;
  void* data = device_allocate(num_bytes);
  launch(overrun_kernel, 1, block, static_cast<unsigned*>(data));
  stage_to_host(host.data(), data, num_bytes);
  expect_error(ErrorCode::internal, [] { wait_for_stream(); });
  wait_for_stream();
  CHECK(host == std::vector<unsigned>(block));  // the copy returned; its source may be freed
  device_release(data);
}

TEST_CASE("simulator: shared memory is initially undefined in every block") {
  double value = 0;
  run_now(unwritten_kernel, 3, block, &value);
  CHECK(std::isnan(value));
}

TEST_CASE("simulator: threads do not always run in the same order") {
  std::vector<unsigned> last(3);
  for (unsigned& value : last) run_now(last_wins_kernel, 1, block, &value);
  CHECK((last[0] != last[1] || last[1] != last[2]));
}

TEST_CASE("simulator: a missing barrier is detected, a barrier fixes it") {
  for (int order = 0; order < 3; ++order) {
    std::vector<double> values(block), fixed(block);
    run_now(neighbour_kernel<false>, 1, block, values.data());
    run_now(neighbour_kernel<true>, 1, block, fixed.data());
    int unwritten = 0;
    for (std::size_t i = 0; i < block; ++i) {
      unwritten += std::isnan(values[i]) ? 1 : 0;
      CHECK(fixed[i] == static_cast<double>((i + 1) % block));
    }
    CHECK(unwritten > 0);
  }
}

TEST_CASE("simulator: launches that no device would run") {
  for (const std::pair<int, int>& shape :
       {std::pair{0, 32}, {1, 0}, {1, 33}, {1, 2048}, {-1, 32}}) {
    CAPTURE(shape.first);
    CAPTURE(shape.second);
    expect_error(ErrorCode::internal,
                 [&] { run_now(two_barriers_kernel, shape.first, shape.second); });
  }
}

}  // namespace simulator_test
