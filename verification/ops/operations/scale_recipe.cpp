// Scales from largest magnitudes, by every recipe and some settings of each.

#include <algorithm>
#include <bit>
#include <cmath>

#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"

namespace zeroproof::verification {
namespace {

/// Magnitudes of the fill's numbers as integers; of patterns every fourth is not a magnitude.
std::uint32_t drawn_amax(const OpCall& call, std::size_t operand, std::int64_t i) {
  const PhiloxBlock w = call.words(operand, i);
  const std::uint64_t index = call.shape().first_index + static_cast<std::uint64_t>(i);
  const auto bits =
      std::bit_cast<std::uint32_t>(fill_value(call.shape().fill, Content::value, index, w));
  return call.shape().fill == Fill::patterns && w[3] % 4U == 0 ? bits : bits & 0x7FFFFFFFU;
}

void draw_amaxes(OpCall& call) {
  for (std::int64_t i = 0; i < call.numel(); ++i) {
    call.get<std::uint32_t>(0)[i] = drawn_amax(call, 0, i);
  }
}

constexpr CurrentScaling current_settings[] = {{Fp8::e4m3, 0, false},    {Fp8::e5m2, 0, false},
                                               {Fp8::e4m3, 0, true},     {Fp8::e5m2, 1e-3F, true},
                                               {Fp8::e4m3, 0.5F, false}, {Fp8::e4m3, -1, false}};

OpFunction run_current(CurrentScalesFn* implementation) {
  return [implementation](OpCall& call) {
    const CurrentScaling& settings = current_settings[call.variant()];
    std::vector<float> scale(call.in<std::uint32_t>(0).size()), scale_inv(scale.size());
    const bool legal = settings.epsilon >= 0;
    const Span<float> first = legal ? call.get<float>(1) : Span<float>(scale);
    const Span<float> second = legal ? call.get<float>(2) : Span<float>(scale_inv);
    call.get<std::uint32_t>(3)[0] = refused(
        [&] { implementation(call.exec, settings, call.in<std::uint32_t>(0), first, second); });
    if (legal) return;  // refused calls have marked results
    std::ranges::copy(scale, call.get<float>(1).begin());
    std::ranges::copy(scale_inv, call.get<float>(2).begin());
  };
}

OpFunction run_mxfp8(Mxfp8ScalesFn* implementation) {
  return [implementation](OpCall& call) {
    const Fp8 format = call.variant() == 0 ? Fp8::e4m3 : Fp8::e5m2;
    implementation(call.exec, format, call.in<std::uint32_t>(0), call.get<e8m0>(1),
                   call.get<float>(2));
  };
}

struct DelayedSetting {
  const char* name;
  DelayedScaling options;
};

constexpr AmaxChoice newest = AmaxChoice::most_recent;
constexpr DelayedSetting delayed_settings[] = {
    {"history 4", {Fp8::e4m3, 0, 4}},
    {"history 4, rolls when empty", {Fp8::e4m3, 0, 4, AmaxChoice::max, EmptyAmax::roll}},
    {"history 16, margin 3, e5m2", {Fp8::e5m2, 3, 16}},
    {"history 1", {Fp8::e4m3, 0, 1, AmaxChoice::max, EmptyAmax::roll}},
    {"history 2, margin 64", {Fp8::e4m3, 64, 2}},
    {"most recent of 3", {Fp8::e4m3, 1, 3, newest}},
    {"most recent of 3, rolls when empty", {Fp8::e5m2, 0, 3, newest, EmptyAmax::roll}}};
constexpr std::int64_t longest_history = 16;

/// Slots of which about one in three is empty, the collecting ones among them; scales as a run has them, and any.
void draw_history(OpCall& call) {
  const Span<std::uint32_t> history = call.get<std::uint32_t>(0);
  for (std::int64_t i = 0; i < std::ssize(history); ++i) {
    const PhiloxBlock w = call.words(0, i);
    history[i] = w[2] % 3U == 0 ? 0 : drawn_amax(call, 0, i);
  }
  for (std::int64_t i = 0; i < call.numel(); ++i) {
    const PhiloxBlock w = call.words(1, i);
    const float usual = std::ldexp(1.0F, static_cast<int>(w[0] % 40U) - 20);
    call.get<float>(1)[i] = w[1] % 4U == 0 ? std::bit_cast<float>(w[2]) : usual;
  }
}

OpFunction run_delayed(DelayedScalesFn* implementation) {
  return [implementation](OpCall& call) {
    const DelayedScaling& options = delayed_settings[call.variant()].options;
    const auto used = static_cast<std::size_t>(call.numel() * options.history);
    implementation(call.exec, options, call.get<std::uint32_t>(0).first(used), call.get<float>(1),
                   call.get<float>(2));
  };
}

}  // namespace

std::vector<Op> scale_recipe_ops() {
  Op current;
  current.name = "current_scales";
  current.contract = "scale_recipe.hpp";
  current.type = "CurrentScalesFn";
  current.phases = {Phase::cast};
  current.variants = {"e4m3",         "e5m2",   "e4m3 power of two", "e5m2 power of two, epsilon",
                      "e4m3 epsilon", "refused"};
  current.operands = {input("amax", Content::given, DType::u32), output("scale"),
                      output("scale_inv"), fixed(output("refused", DType::u32), 1)};
  current.fills = number_fills();
  current.fills.push_back(Fill::patterns);
  current.one_result = "it divides, and rounds once each time";
  current.generate = draw_amaxes;
  current.reference = run_current(reference::current_scales);
  current.host = run_current(cuda::host::current_scales);
  current.device = run_current(on_device<cuda::device::current_scales>);

  Op mxfp8 = current;
  mxfp8.name = "mxfp8_scales";
  mxfp8.type = "Mxfp8ScalesFn";
  mxfp8.variants = {"e4m3", "e5m2"};
  mxfp8.operands = {input("amax", Content::given, DType::u32), output("exponent", DType::e8m0),
                    output("scale")};
  mxfp8.one_result = "it multiplies once, and rounds up";
  mxfp8.settings = [](const OpCall& call) -> std::vector<OpSetting> {
    return {{"e5m2", std::int64_t{call.variant()}}};
  };
  mxfp8.reference = run_mxfp8(reference::mxfp8_scales);
  mxfp8.host = run_mxfp8(cuda::host::mxfp8_scales);
  mxfp8.device = run_mxfp8(on_device<cuda::device::mxfp8_scales>);

  Op delayed = current;
  delayed.name = "delayed_scales";
  delayed.type = "DelayedScalesFn";
  delayed.variants.clear();
  for (const DelayedSetting& setting : delayed_settings)
    delayed.variants.emplace_back(setting.name);
  delayed.operands = {per_element(in_place("history", Content::given, DType::u32), longest_history),
                      in_place("scale", Content::given), output("scale_inv")};
  delayed.largest = 4097;
  delayed.generate = draw_history;
  delayed.reference = run_delayed(reference::delayed_scales);
  delayed.host = run_delayed(cuda::host::delayed_scales);
  delayed.device = run_delayed(on_device<cuda::device::delayed_scales>);
  return {current, mxfp8, delayed};
}

}  // namespace zeroproof::verification
