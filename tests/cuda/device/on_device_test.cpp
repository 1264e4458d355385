// Transfer of a host's buffers for device implementations (verification/ops/on_device.hpp). Skipped
// without a device; tests/cuda/device/sim runs the same file on the simulated device.

#include "verification/ops/on_device.hpp"
#include "cuda/device/operations.hpp"

#include <doctest.h>

#include <vector>

#include "tests/cuda/optimizer/device_layouts.hpp"

namespace on_device_test {

namespace {

using namespace zeroproof;
using device_test::exec;
using device_test::usable;
using verification::on_device;

struct Places {
  const float *left, *right, *sum;
} seen;

void look(const Exec&, Span<const float> left, Span<const float> right, Span<float> sum) {
  seen = {left.data(), right.data(), sum.data()};
}

void double_half(const Exec& e, Span<const float> left, Span<const float>, Span<float> sum) {
  cuda::device::clip(e, 2.0F, left.first(left.size() / 2), sum.first(left.size() / 2));
}

std::uintptr_t within_a_pack(const float* data) {
  return reinterpret_cast<std::uintptr_t>(data) % 16;
}

}  // namespace

TEST_CASE("on device: spans keep their alignment within 16 bytes") {
  if (!usable()) return;
  std::vector<float> memory(60);
  for (std::size_t offset = 0; offset < 4; ++offset) {
    float *const left = memory.data() + offset, *const right = left + 21, *const sum = left + 42;
    on_device<look>(exec, {left, 9}, {right, 9}, {sum, 9});
    CHECK(within_a_pack(seen.left) == within_a_pack(left));
    CHECK(within_a_pack(seen.right) == within_a_pack(right));
    CHECK(within_a_pack(seen.sum) == within_a_pack(sum));
    for (const float* place : {seen.left, seen.right, seen.sum})
      CHECK((place < memory.data() || place >= memory.data() + memory.size()));
  }
}

TEST_CASE("on device: a shared buffer stays shared, and an empty one in place") {
  if (!usable()) return;
  std::vector<float> a(9, 1.0F), b(9, 3.0F);
  on_device<look>(exec, a, b, a);
  CHECK(seen.left == seen.sum);
  CHECK(seen.left != seen.right);
  CHECK(a == std::vector<float>(9, 1.0F));
  on_device<double_half>(exec, a, b, a);
  CHECK(a == std::vector<float>{2, 2, 2, 2, 1, 1, 1, 1, 1});
  on_device<look>(exec, {a.data(), 0}, {}, {});
  CHECK(seen.left == a.data());
  CHECK(seen.sum == nullptr);
}

TEST_CASE("on device: elements that a kernel does not write keep the caller's values") {
  if (!usable()) return;
  const std::vector<float> a(8, 1.0F);
  std::vector<float> sum(8, -7.0F);
  on_device<double_half>(exec, a, a, sum);
  CHECK(sum == std::vector<float>{2, 2, 2, 2, -7, -7, -7, -7});
}

}  // namespace on_device_test
