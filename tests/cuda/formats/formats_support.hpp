#pragma once
// Casts, split masters and scales of recipes against the reference, for the implementations of the
// host and those of the device.

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/operations.hpp"
#include "tests/cuda/device_place.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"

namespace zeroproof::tests {

using device_test::Place;

template <class Source, class Target>
using CastFn = void(const Exec&, Span<const Source>, Span<Target>);

template <class Source, class Target>
void check_cast(CastFn<Source, Target>* implementation, CastFn<Source, Target>* expected,
                const Exec& exec) {
  device_test::for_each_layout([&](std::int64_t numel, const int* offset) {
    Place<Source> source(numel, offset[0]);
    Place<Target> target(numel, offset[1]), want(numel, 0);
    device_test::fill(source.span(), 1);
    implementation(exec, source.span(), target.span());
    expected({}, source.span(), want.span());
    target.check([&](std::int64_t i) { return want[i]; });
  });
  std::vector<Source> three(3);
  std::vector<Target> four(4);
  expect_error(ErrorCode::invalid_argument, [&] { implementation(exec, three, four); });
}

/// Narrowing and widening: besides, every finite value of the format, the middle between it and the
/// next one, the fp32 numbers around that middle and around the largest values, and every code.
template <class Format>
void check_format(CastFn<float, Format>* narrow, CastFn<Format, float>* widen,
                  CastFn<float, Format>* expected_narrow, CastFn<Format, float>* expected_widen,
                  const Exec& exec) {
  check_cast(narrow, expected_narrow, exec);
  check_cast(widen, expected_widen, exec);
  using device_test::FormatOf;
  const std::int64_t num_codes = std::int64_t{1} << FormatOf<Format>::num_bits;
  Place<Format> codes(num_codes, 0);
  for (std::int64_t i = 0; i < num_codes; ++i)
    codes.span()[i].bits = static_cast<decltype(Format::bits)>(i);
  Place<float> wide(num_codes, 0), values(num_codes, 0);
  widen(exec, codes.span(), wide.span());
  expected_widen({}, codes.span(), values.span());
  wide.check([&](std::int64_t i) { return values[i]; });

  std::vector<float> near;
  const auto add = [&](float x) {
    for (const float y : {x, std::nextafter(x, 0.0F), std::nextafter(x, HUGE_VALF)})
      near.insert(near.end(), {y, -y});
  };
  for (std::int64_t i = 0; i < FormatOf<Format>::overflow; ++i) {
    add(values[i]);
    const double high =
        std::isinf(values[i + 1]) ? 2 * std::exp2(std::ilogb(values[i])) : double{values[i + 1]};
    add(static_cast<float>((double{values[i]} + high) / 2));
  }
  for (const float x : {0x1.Cp8F, 0x1.Dp8F, 0x1.Ep8F, 0x1.Cp15F, 0x1.Ep15F, 0x1p16F}) add(x);
  Place<Format> target(static_cast<std::int64_t>(near.size()), 0),
      want(static_cast<std::int64_t>(near.size()), 0);
  narrow(exec, near, target.span());
  expected_narrow({}, near, want.span());
  target.check([&](std::int64_t i) { return want[i]; });
}

inline void check_stochastic(StochasticCastToBf16Fn* implementation, const Exec& exec) {
  for (const RoundingDraw& draw :
       {RoundingDraw{0, 0, 0}, RoundingDraw{0x0123456789ABCDEF, 7, 1},
        RoundingDraw{42, 0xFFFFFFFF00000003, 2},
        RoundingDraw{0xFFFFFFFFFFFFFFFF, 0xFFFFFFFF, (std::uint64_t{1} << 35) + 4099},
        RoundingDraw{5, 6, (std::uint64_t{1} << 63) - 7}}) {
    CAPTURE(draw.first_index);
    device_test::for_each_layout([&](std::int64_t numel, const int* offset) {
      Place<float> source(numel, offset[0]);
      Place<bf16> target(numel, offset[1]), want(numel, 0);
      device_test::fill(source.span(), 3);
      implementation(exec, draw, source.span(), target.span());
      reference::stochastic_cast_to_bf16({}, draw, source.span(), want.span());
      target.check([&](std::int64_t i) { return want[i]; });
    });
  }
}

/// Every upper half of a master, with remainders around the tie, and any pair joined.
inline void check_split(SplitMasterFn* split, JoinMasterFn* join, const Exec& exec) {
  const auto check = [&](std::int64_t numel, const int* offset, const auto& fill_master) {
    Place<float> master(numel, offset[0]), joined(numel, offset[3]), from_any(numel, offset[3]);
    Place<bf16> param(numel, offset[1]), any(numel, offset[1]);
    Place<std::uint16_t> remainder(numel, offset[2]);
    fill_master(master.span());
    device_test::fill(any.span(), 6);
    for (const SplitRule rule : {SplitRule::nearest, SplitRule::transformer_engine}) {
      split(exec, rule, master.span(), param.span(), remainder.span());
      join(exec, rule, param.span(), remainder.span(), joined.span());
      join(exec, rule, any.span(), remainder.span(), from_any.span());
      std::vector<bf16> want_param(numel);
      std::vector<std::uint16_t> want(numel);
      std::vector<float> want_joined(numel);
      reference::split_master({}, rule, master.span(), want_param, want);
      param.check([&](std::int64_t i) { return want_param[i]; });
      CHECK(std::equal(want.begin(), want.end(), remainder.span().begin()));
      reference::join_master({}, rule, want_param, want, want_joined);
      joined.check([&](std::int64_t i) { return want_joined[i]; });
      reference::join_master({}, rule, any.span(), want, want_joined);
      from_any.check([&](std::int64_t i) { return want_joined[i]; });
    }
  };
  device_test::for_each_layout([&](std::int64_t numel, const int* offset) {
    check(numel, offset, [](Span<float> master) { device_test::fill(master, 5); });
  });
  constexpr std::uint32_t lower[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
  constexpr int none[4] = {};
  check(6 * 0x10000, none, [&](Span<float> master) {
    for (std::uint32_t i = 0; i < master.size(); ++i)
      master[i] = std::bit_cast<float>(i / 6 << 16 | lower[i % 6]);
  });
}

struct ScaleImplementations {
  CurrentScalesFn* current;
  Mxfp8ScalesFn* mxfp8;
  DelayedScalesFn* delayed;
};

/// Any amax, also zeros, infinities and NaN, and histories of every length.
inline void check_scales(const ScaleImplementations& implementations, const Exec& exec) {
  constexpr std::int64_t numel = 20 * 1024;
  std::vector<std::uint32_t> amax(numel);
  for (std::size_t i = 0; i < amax.size(); ++i)
    amax[i] = i % 7 == 0 ? 0 : device_test::hash(i, 8) >> (i % 4);
  for (std::uint32_t i = 0; i < 16; ++i)  // around 448 and 57344, both 1.75 * 2^k
    amax[i] = (i < 8 ? 0x43E00000 : 0x47600000) + i % 8 - 4;
  Place<float> scale(numel, 1), inverse(numel, 2), want(numel, 0), want_inverse(numel, 0);
  Place<e8m0> exponent(numel, 3), want_exponent(numel, 0);
  const auto compare = [&] {
    scale.check([&](std::int64_t i) { return want[i]; });
    inverse.check([&](std::int64_t i) { return want_inverse[i]; });
  };
  for (const Fp8 format : {Fp8::e4m3, Fp8::e5m2}) {
    for (const float epsilon : {0.0F, -0.0F, 0x1p-149F, 1e-4F}) {
      for (const bool power_of_two : {false, true}) {
        const CurrentScaling options = {format, epsilon, power_of_two};
        implementations.current(exec, options, amax, scale.span(), inverse.span());
        reference::current_scales({}, options, amax, want.span(), want_inverse.span());
        compare();
      }
    }
    implementations.mxfp8(exec, format, amax, exponent.span(), scale.span());
    reference::mxfp8_scales({}, format, amax, want_exponent.span(), want.span());
    exponent.check([&](std::int64_t i) { return want_exponent[i]; });
    compare();
    for (const std::int64_t slots : {1, 2, 3, 255, 256, 257, 1000, 1024}) {
      const auto tensors = static_cast<std::size_t>(numel / slots);
      for (const AmaxChoice choice : {AmaxChoice::max, AmaxChoice::most_recent}) {
        for (const EmptyAmax empty : {EmptyAmax::keep, EmptyAmax::roll}) {
          const DelayedScaling options = {format, static_cast<int>(slots % 65), slots, choice,
                                          empty};
          std::vector<std::uint32_t> history(
              amax.begin(), amax.begin() + static_cast<std::ptrdiff_t>(tensors * options.history));
          std::vector<std::uint32_t> want_history = history;
          for (Place<float>* place : {&scale, &want}) std::ranges::fill(place->span(), 5.0F);
          implementations.delayed(exec, options, history, scale.span().first(tensors),
                                  inverse.span().first(tensors));
          reference::delayed_scales({}, options, want_history, want.span().first(tensors),
                                    want_inverse.span().first(tensors));
          CHECK(history == want_history);
          compare();
        }
      }
    }
  }
}

inline void check_scales_refused(const ScaleImplementations& implementations, const Exec& exec) {
  const auto refused = [](const std::function<void()>& call) {
    expect_error(ErrorCode::invalid_argument, call);
  };
  const std::vector<std::uint32_t> amax(4);
  std::vector<float> four(4), three(3);
  std::vector<e8m0> exponent(4);
  for (const float bad : {-1.0F, -0x1p-149F, HUGE_VALF, std::nanf("")})
    refused([&] { implementations.current(exec, {.epsilon = bad}, amax, four, four); });
  refused([&] { implementations.current(exec, {}, amax, three, four); });
  refused([&] { implementations.current(exec, {}, amax, four, three); });
  refused([&] { implementations.mxfp8(exec, Fp8::e4m3, amax, exponent, three); });
  refused([&] { implementations.mxfp8(exec, Fp8::e4m3, {}, exponent, {}); });
  std::vector<std::uint32_t> history(2048, 7);
  std::vector<float> two(2);
  for (const DelayedScaling& bad :
       {DelayedScaling{.margin = -1, .history = 1}, DelayedScaling{.margin = 65, .history = 1},
        DelayedScaling{.history = 0}, DelayedScaling{.history = 1025},
        DelayedScaling{.history = 1023}}) {
    refused([&] { implementations.delayed(exec, bad, history, two, two); });
  }
  refused([&] { implementations.delayed(exec, {}, history, two, {}); });
  CHECK(history == std::vector<std::uint32_t>(2048, 7));
  implementations.current(exec, {}, {}, {}, {});
  implementations.mxfp8(exec, Fp8::e4m3, {}, {}, {});
  implementations.delayed(exec, {}, {}, {}, {});
}

}  // namespace zeroproof::tests
