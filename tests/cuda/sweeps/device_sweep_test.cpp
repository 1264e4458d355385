// Square root and casts of the device for every float, compared on the device with the host's,
// which tests/verification compares with the reference. The simulated device runs 2^14 floats out
// of every 2^26.

#include <doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

#include "cuda/device/kernels/bulk/count_differing.hpp"
#include "cuda/device/runtime/raw_array.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "cuda/host/operations.hpp"
#include "tests/cuda/device/device_runtime_support.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"
#include "tests/cuda/sweeps/sweep_kernels.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::device_test;
namespace device = zeroproof::cuda::device;

constexpr std::int64_t slab_numel = std::int64_t{1} << 26;
constexpr std::int64_t num_slabs = 64;

bool simulated() { return device::device_info().detail.find("simulated") != std::string::npos; }
std::int64_t swept_of_slab() { return simulated() ? std::int64_t{1} << 14 : slab_numel; }

Exec all_threads() {
  return {static_cast<int>(std::max(std::thread::hardware_concurrency(), 1U)), Isa::best};
}

float input(std::uint32_t first, std::int64_t i) {
  return std::bit_cast<float>(first + static_cast<std::uint32_t>(i));
}

/// The host's results for a slab, with NaN as in sweep_kernels.hpp.
void expected_roots(std::uint32_t first, Span<std::uint32_t> roots) {
#pragma omp parallel for num_threads(all_threads().num_threads)
  for (std::int64_t i = 0; i < numel(roots); ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(std::sqrt(input(first, i)));
    roots[i] = (bits & 0x7FFFFFFFU) > 0x7F800000U ? 0x7FFFFFFFU : bits;
  }
}

template <class Format>
class ExpectedCasts {
 public:
  using Cast = void(const Exec&, Span<const float>, Span<Format>);

  ExpectedCasts(Cast* cast, std::uint16_t infinity) : cast_(cast), infinity_(infinity) {}

  void operator()(std::uint32_t first, Span<std::uint16_t> words) {
    values_.resize(words.size());
    casts_.resize(words.size());
#pragma omp parallel for num_threads(all_threads().num_threads)
    for (std::int64_t i = 0; i < numel(words); ++i) values_[i] = input(first, i);
    cast_(all_threads(), values_, casts_);
#pragma omp parallel for num_threads(all_threads().num_threads)
    for (std::int64_t i = 0; i < numel(words); ++i) {
      const std::uint16_t bits = casts_[i].bits;
      words[i] = (bits & 0x7FFFU) > infinity_ ? std::uint16_t{0x7FFF} : bits;
    }
  }

 private:
  Cast* cast_;
  std::uint16_t infinity_;
  std::vector<float> values_;
  std::vector<Format> casts_;
};

/// Number of wrong device words, over all slabs.
template <class Word, class Expected>
void sweep(void (*enqueue)(std::uint32_t, std::int64_t, Word*), Expected&& expected) {
  const std::int64_t count = swept_of_slab();
  const std::int64_t num_bytes = count * static_cast<std::int64_t>(sizeof(Word));
  const cuda::PinnedArray<Word> on_host(count);
  const device_test::DeviceBytes found(num_bytes), right(num_bytes);
  auto* const ours = reinterpret_cast<Word*>(found.data());
  auto* const theirs = reinterpret_cast<Word*>(right.data());
  for (std::int64_t slab = 0; slab < num_slabs; ++slab) {
    CAPTURE(slab);
    const auto first = static_cast<std::uint32_t>(slab * slab_numel);
    enqueue(first, count, ours);
    expected(first, Span<Word>(on_host.data(), static_cast<std::size_t>(count)));
    device::enqueue_to_device(theirs, on_host.data(), num_bytes);
    CHECK(device::count_differing(ours, theirs, count) == 0);  // also waits
  }
  // Tests the comparison itself: the last word, and then all of them.
  device::enqueue_fill(theirs + count - 1, 0x11, sizeof(Word));
  CHECK(device::count_differing(ours, theirs, count) == 1);
  device::enqueue_fill(ours, 0x22, num_bytes);
  device::enqueue_fill(theirs, 0x23, num_bytes);
  CHECK(device::count_differing(ours, theirs, count) == count);
  CHECK(device::count_differing(ours, theirs, 0) == 0);
  tests::expect_error(ErrorCode::internal, [&] {
    const device::Graph graph([&] { device::count_differing(ours, theirs, count); });
  });
}

}  // namespace

TEST_CASE("device: the square root of every float is rounded correctly") {
  if (!usable()) return;
  sweep(enqueue_roots, expected_roots);
}

TEST_CASE("device: every float as bf16 and as fp16") {
  if (!usable()) return;
  sweep(enqueue_bf16, ExpectedCasts<bf16>(cuda::host::cast_to_bf16, 0x7F80));
  sweep(enqueue_fp16, ExpectedCasts<fp16>(cuda::host::cast_to_fp16, 0x7C00));
}
