// More elements than a 32-bit index can address. On a real device only: the simulated one would
// take too long.

#include <doctest.h>

#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "cuda/device/kernels/gradients/norm_pieces.hpp"
#include "cuda/device/operations.hpp"
#include "reference/operations.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"
#include "verification/ops/on_device.hpp"

namespace device_large_test {

using namespace zeroproof;
using namespace zeroproof::device_test;
using verification::on_device;
namespace device = zeroproof::cuda::device;

TEST_CASE("device: more elements than one launch may deposit go in pieces") {
  std::vector<std::pair<std::int64_t, std::int64_t>> pieces;
  const auto record = [&](std::int64_t first, std::int64_t numel) {
    pieces.emplace_back(first, numel);
  };
  device::for_each_norm_piece(10, 4, record);
  CHECK(pieces == std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 4}, {4, 4}, {8, 2}});
  pieces.clear();
  constexpr std::int64_t size = device::norm_piece_numel;
  device::for_each_norm_piece(2 * size, size, record);
  CHECK(pieces == std::vector<std::pair<std::int64_t, std::int64_t>>{{0, size}, {size, size}});
  CHECK(size <= 0xFFFFFFFF);
  CHECK(size % 16 == 0);
}

TEST_CASE("slow: device: more than 2^31 elements") {
  if (!usable()) return;
  constexpr std::int64_t numel = (std::int64_t{1} << 31) + 1029;
  std::vector<float> grad;
  try {
    grad.assign(numel, 0x1p100F);
  } catch (const std::bad_alloc&) {
    tests::skip_case("8.6 GB of host memory are needed");
    return;
  }
  NormLimbs chunks, squares, magnitudes, expected;
  on_device<device::grad_norm_accumulate>(exec, grad, chunks);
  on_device<device::grad_norm_exact_accumulate>(exec, grad, squares);  // in two pieces
  on_device<device::grad_abs_accumulate>(exec, grad, magnitudes);
  // Bit 32 i + k of the sum times 2^352 is bit k of limb i: 2^231 is 2^(32 * 18 + 7), and 2^200 is 2^(32 * 17 + 8).
  expected.limbs[18] = 1 << 7;
  expected.limbs[17] = 1029 << 8;
  for (NormLimbs* limbs : {&chunks, &squares, &magnitudes, &expected})
    reference::grad_norm_normalise(*limbs);
  CHECK(chunks == expected);
  CHECK(squares == expected);
  NormLimbs expected_magnitudes;
  expected_magnitudes.limbs[15] = 1 << 3;  // 2^131
  expected_magnitudes.limbs[14] = 1029 << 4;
  CHECK(magnitudes == expected_magnitudes);

  CHECK_FALSE(on_device<device::unscale>(exec, 0.5F, grad, grad));
  bool halved = true;
  for (const float g : grad) halved = halved && g == 0x1p99F;
  CHECK(halved);
  grad.back() = std::numeric_limits<float>::infinity();
  std::uint32_t amax = 0;
  on_device<device::grad_max_accumulate>(exec, grad, amax);
  CHECK(amax == 0x7F800000);
  CHECK(on_device<device::unscale>(exec, 0.5F, grad, grad));
}

}  // namespace device_large_test
