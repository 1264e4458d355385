// Formats of the device implementations. Skipped without a usable device; tests/cuda/device/sim
// runs this file on the simulated device.

#include <doctest.h>

#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "tests/cuda/formats/block_support.hpp"
#include "tests/cuda/formats/formats_support.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"
#include "verification/ops/on_device.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::device_test;
using verification::on_device;
namespace device = zeroproof::cuda::device;
namespace host = zeroproof::cuda::host;

namespace {

template <class Source, class Target>
void check_as_host(void (*implementation)(const Exec&, Span<const Source>, Span<Target>),
                   void (*other)(const Exec&, Span<const Source>, Span<Target>)) {
  for_each_layout([&](std::int64_t numel, const int* offset) {
    Place<Source> source(numel, offset[0]);
    Place<Target> target(numel, offset[1]);
    fill(source.span(), 1);
    std::vector<Target> want(numel);
    const Place<Source>& given = source;
    implementation(exec, given.span(), target.span());
    other(exec, given.span(), want);
    target.check([&](std::int64_t i) { return want[i]; });
  });
}

}  // namespace

TEST_CASE("device: casts to 8 bits that do not saturate, and exponents of scales") {
  if (!usable()) return;
  check_nonfinite_by_hand(on_device<device::nonfinite_cast_to_e4m3>,
                          on_device<device::nonfinite_cast_to_e5m2>, exec);
  check_e8m0(on_device<device::cast_to_e8m0>, on_device<device::widen_e8m0>, exec);
}

TEST_CASE("device: formats at every alignment, as on the host") {
  if (!usable()) return;
  check_as_host<float, e4m3>(on_device<device::nonfinite_cast_to_e4m3>,
                             host::nonfinite_cast_to_e4m3);
  check_as_host<float, e5m2>(on_device<device::nonfinite_cast_to_e5m2>,
                             host::nonfinite_cast_to_e5m2);
  check_as_host<float, e8m0>(on_device<device::cast_to_e8m0>, host::cast_to_e8m0);
  check_as_host<e8m0, float>(on_device<device::widen_e8m0>, host::widen_e8m0);
}

TEST_CASE("device: a master in two parts, at every alignment") {
  if (!usable()) return;
  check_split(on_device<device::split_master>, on_device<device::join_master>, exec);
  for_each_layout([&](std::int64_t numel, const int* offset) {
    Place<float> master(numel, offset[0]), joined(numel, offset[3]);
    Place<bf16> param(numel, offset[1]);
    Place<std::uint16_t> remainder(numel, offset[2]);
    fill(master.span(), 5);
    const Place<float>& given = master;
    on_device<device::split_master>(exec, SplitRule::transformer_engine, given.span(), param.span(),
                                    remainder.span());
    std::size_t wrong = 0;
    for (std::int64_t i = 0; i < numel; ++i) {
      const std::uint32_t bits = to_bits(master[i]);
      wrong +=
          param[i].bits == ((bits + 0x8000U) >> 16 & 0xFFFFU) && remainder[i] == (bits & 0xFFFFU)
              ? 0
              : 1;
    }
    CHECK(wrong == 0);
    const Place<bf16>& upper = param;
    const Place<std::uint16_t>& lower = remainder;
    on_device<device::join_master>(exec, SplitRule::transformer_engine, upper.span(), lower.span(),
                                   joined.span());
    joined.check([&](std::int64_t i) { return master[i]; });
  });
}

TEST_CASE("device: scales of the recipes") {
  if (!usable()) return;
  check_current(on_device<device::current_scales>, exec);
  check_mxfp8(on_device<device::mxfp8_scales>, exec);
  check_delayed(on_device<device::delayed_scales>, exec);
}

TEST_CASE("device: scales of any amax, as on the host") {
  if (!usable()) return;
  constexpr std::size_t numel = 5003;
  std::vector<std::uint32_t> amax(numel);
  for (std::size_t i = 0; i < numel; ++i) amax[i] = hash(i, 8) >> (i % 4);
  std::vector<float> scale(numel), inverse(numel), host_scale(numel), host_inverse(numel);
  std::vector<e8m0> exponent(numel), host_exponent(numel);
  const auto compare = [&] {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < numel; ++i)
      wrong += same(scale[i], host_scale[i]) && same(inverse[i], host_inverse[i]) ? 0 : 1;
    CHECK(wrong == 0);
  };
  for (const Fp8 format : {Fp8::e4m3, Fp8::e5m2}) {
    for (const float epsilon : {0.0F, 0x1p-149F, 1e-4F}) {
      for (const bool power_of_two : {false, true}) {
        const CurrentScaling options = {format, epsilon, power_of_two};
        on_device<device::current_scales>(exec, options, amax, scale, inverse);
        host::current_scales(exec, options, amax, host_scale, host_inverse);
        compare();
      }
    }
    on_device<device::mxfp8_scales>(exec, format, amax, exponent, scale);
    host::mxfp8_scales(exec, format, amax, host_exponent, host_scale);
    for (std::size_t i = 0; i < numel; ++i) CHECK(exponent[i].bits == host_exponent[i].bits);
    compare();
    for (const std::int64_t slots : {1, 2, 3, 255, 256, 257, 1000}) {
      const std::size_t tensors = numel / static_cast<std::size_t>(slots);
      const std::vector<std::uint32_t> start(
          amax.begin(), amax.begin() + static_cast<std::ptrdiff_t>(tensors) * slots);
      for (const AmaxChoice choice : {AmaxChoice::max, AmaxChoice::most_recent}) {
        const DelayedScaling options = {format, static_cast<int>(slots % 65), slots, choice,
                                        EmptyAmax::roll};
        std::vector<std::uint32_t> history = start, host_history = start;
        scale.assign(numel, 1.0F);
        host_scale = scale;
        on_device<device::delayed_scales>(exec, options, history, {scale.data(), tensors},
                                          {inverse.data(), tensors});
        host::delayed_scales(exec, options, host_history, {host_scale.data(), tensors},
                             {host_inverse.data(), tensors});
        CHECK(history == host_history);
        for (std::size_t t = tensors; t < numel; ++t) inverse[t] = host_inverse[t] = 0;
        compare();
      }
    }
  }
}

TEST_CASE("device: block scales") {
  if (!usable()) return;
  const BlockImplementations implementations = {
      on_device<device::block_amax>, on_device<device::block_quantize_e4m3>,
      on_device<device::block_quantize_e5m2>, on_device<device::block_dequantize_e4m3>,
      on_device<device::block_dequantize_e5m2>};
  check_blocks_by_hand(exec, implementations);
  check_blocks_refused(exec, implementations);
  check_blocks(exec, implementations);
}
