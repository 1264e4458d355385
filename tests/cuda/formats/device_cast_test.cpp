// Device casts against the contract, bit for bit: odd sizes, every alignment, every value next to a rounding
// boundary. Skipped without a usable device; tests/cuda/device/sim runs the same file on the
// simulated device.

#include <doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cuda/device/operations.hpp"
#include "tests/cuda/device_expected.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"
#include "verification/ops/on_device.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::device_test;
using verification::on_device;
namespace device = zeroproof::cuda::device;

template <class Source, class Target>
void check_layouts(void (*implementation)(const Exec&, Span<const Source>, Span<Target>),
                   Target (*expected)(Source)) {
  for_each_layout([&](std::int64_t numel, const int* offset) {
    Place<Source> source(numel, offset[0]);
    Place<Target> target(numel, offset[1]);
    fill(source.span(), 1);
    implementation(exec, source.span(), target.span());
    target.check([&](std::int64_t i) { return expected(source[i]); });
  });
}

/// Every finite value of the format, the middle between it and the next one, and the fp32 numbers around that
/// middle; both signs.
template <class Format>
std::vector<float> near_boundaries() {
  constexpr float inf = std::numeric_limits<float>::infinity();
  std::vector<float> values;
  for (int bits = 0; bits < FormatOf<Format>::overflow; ++bits) {
    using Bits = decltype(Format::bits);
    const double low = expected_widen(Format{static_cast<Bits>(bits)});
    double high = expected_widen(Format{static_cast<Bits>(bits + 1)});
    if (std::isinf(high)) high = 2 * std::exp2(std::ilogb(low));
    const auto middle = static_cast<float>((low + high) / 2);
    for (const float x : {static_cast<float>(low), middle, std::nextafter(middle, 0.0F),
                          std::nextafter(middle, inf)}) {
      values.push_back(x);
      values.push_back(-x);
    }
  }
  return values;
}

template <class Format>
void check_boundaries(void (*implementation)(const Exec&, Span<const float>, Span<Format>)) {
  std::vector<float> values = near_boundaries<Format>();
  for (const float x : {0x1.Cp8F, 0x1.Dp8F, 0x1.D00002p8F, 0x1.Ep8F, 0x1.Cp15F, 0x1.Ep15F,
                        0x1.E00002p15F, 0x1p16F}) {
    values.push_back(x);  // around and above the largest finite values of the 8-bit formats
    values.push_back(-x);
  }
  Place<Format> target(static_cast<std::int64_t>(values.size()), 0);
  implementation(exec, values, target.span());
  target.check([&](std::int64_t i) { return expected_narrow<Format>(values[i]); });
}

template <class Source>
void check_widen_all(void (*implementation)(const Exec&, Span<const Source>, Span<float>)) {
  const std::int64_t num_patterns = std::int64_t{1} << FormatOf<Source>::num_bits;
  Place<Source> source(num_patterns, 0);
  Place<float> target(num_patterns, 0);
  for (std::int64_t i = 0; i < num_patterns; ++i) {
    source.span()[i].bits = static_cast<decltype(Source::bits)>(i);
  }
  implementation(exec, source.span(), target.span());
  target.check([&](std::int64_t i) { return expected_widen<Source>(source[i]); });
}

}  // namespace

TEST_CASE("device: casts round to nearest even") {
  if (!usable()) return;
  check_layouts<float, bf16>(on_device<device::cast_to_bf16>, expected_narrow<bf16>);
  check_layouts<float, fp16>(on_device<device::cast_to_fp16>, expected_narrow<fp16>);
  check_layouts<float, e4m3>(on_device<device::cast_to_e4m3>, expected_narrow<e4m3>);
  check_layouts<float, e5m2>(on_device<device::cast_to_e5m2>, expected_narrow<e5m2>);
}

TEST_CASE("device: casts next to every rounding boundary") {
  if (!usable()) return;
  check_boundaries<bf16>(on_device<device::cast_to_bf16>);
  check_boundaries<fp16>(on_device<device::cast_to_fp16>);
  check_boundaries<e4m3>(on_device<device::cast_to_e4m3>);
  check_boundaries<e5m2>(on_device<device::cast_to_e5m2>);
}

TEST_CASE("device: widening is exact") {
  if (!usable()) return;
  check_layouts<bf16, float>(on_device<device::widen_bf16>, expected_widen<bf16>);
  check_layouts<fp16, float>(on_device<device::widen_fp16>, expected_widen<fp16>);
  check_layouts<e4m3, float>(on_device<device::widen_e4m3>, expected_widen<e4m3>);
  check_layouts<e5m2, float>(on_device<device::widen_e5m2>, expected_widen<e5m2>);
  check_widen_all<bf16>(on_device<device::widen_bf16>);
  check_widen_all<fp16>(on_device<device::widen_fp16>);
  check_widen_all<e4m3>(on_device<device::widen_e4m3>);
  check_widen_all<e5m2>(on_device<device::widen_e5m2>);
}

TEST_CASE("device: 8-bit casts saturate and keep NaN and zero signs") {
  if (!usable()) return;
  constexpr float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> source = {inf,           -inf,  464.0F,   -465.0F,  1e30F,
                                     std::nanf(""), -0.0F, 0x1p-10F, 0x1.8p-9F};
  const std::vector<int> as_e4m3 = {0x7E, 0xFE, 0x7E, 0xFE, 0x7E, 0x7F, 0x80, 0x00, 0x02};
  const std::vector<int> as_e5m2 = {0x7B, 0xFB, 0x5F, 0xDF, 0x7B, 0x7F, 0x80, 0x14, 0x1A};
  std::vector<e4m3> four(source.size(), {0xFF});
  std::vector<e5m2> five(source.size(), {0xFF});
  on_device<device::cast_to_e4m3>(exec, source, four);
  on_device<device::cast_to_e5m2>(exec, source, five);
  for (std::size_t i = 0; i < source.size(); ++i) {
    CAPTURE(source[i]);
    CHECK(int{four[i].bits} == as_e4m3[i]);
    CHECK(int{five[i].bits} == as_e5m2[i]);
  }
}

TEST_CASE("device: stochastic rounding uses the word of the global index") {
  if (!usable()) return;
  const RoundingDraw draws[] = {{0, 0, 0},
                                {0x0123456789ABCDEF, 7, 1},
                                {42, 0xFFFFFFFF00000003, 2},
                                {0xFFFFFFFFFFFFFFFF, 0xFFFFFFFF, (std::uint64_t{1} << 35) + 4099},
                                {5, 6, 0xFFFFFFFFFFFFFFF9}};
  for (const RoundingDraw& draw : draws) {
    CAPTURE(draw.first_index);
    for_each_layout([&](std::int64_t numel, const int* offset) {
      Place<float> source(numel, offset[0]);
      Place<bf16> target(numel, offset[1]);
      fill(source.span(), 3);
      on_device<device::stochastic_cast_to_bf16>(exec, draw, source.span(), target.span());
      target.check([&](std::int64_t i) { return expected_stochastic(draw, source[i], i); });
    });
  }
}

TEST_CASE(
    "device: stochastic rounding never changes exact values, and rounds others up as often as it "
    "should") {
  if (!usable()) return;
  std::vector<float> source(40000);
  std::vector<bf16> target(source.size());
  for (std::size_t i = 0; i < source.size(); ++i)
    source[i] = i % 2 == 0 ? -1.5F : 0x1.008p0F;  // a quarter of a unit
  on_device<device::stochastic_cast_to_bf16>(exec, {9, 1, 0}, source, target);
  int up = 0;
  bool exact = true;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (i % 2 == 0) exact = exact && target[i].bits == 0xBFC0;
    if (i % 2 == 1 && target[i].bits == 0x3F81) ++up;
  }
  CHECK(exact);
  CHECK(up > 4600);  // 5000 expected, one standard deviation is 61
  CHECK(up < 5400);
}
