#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/compare/bounds/step_bounds.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"

namespace zeroproof::verification {
namespace {

/// Coefficients by variant; the last variant calls in place.
constexpr std::array<float, 4> coefficients = {0.37F, 1.0F, 0.0F, 0.9999F};

OpFunction run_clip(ClipFn* implementation) {
  return [implementation](OpCall& call) {
    const float coef = coefficients[call.variant()];
    const Span<float> target = call.get<float>(1);
    if (call.variant() < 3) return implementation(call.exec, coef, call.in<float>(0), target);
    std::copy_n(call.in<float>(0).data(), target.size(), target.data());
    implementation(call.exec, coef, target, target);
  };
}

OpFunction run_coef(ClipCoefFn* implementation) {
  return [implementation](OpCall& call) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
      std::optional<double> max_norm;
      if (call.in<std::uint32_t>(2)[i] != 0) max_norm = call.in<double>(1)[i];
      float coef = 0;
      call.get<std::uint32_t>(4)[i] =
          refused([&] { coef = implementation(call.in<double>(0)[i], max_norm); });
      call.get<float>(3)[i] = coef;
    }
  };
}

std::unique_ptr<CallBounds> clip_bounds(const OpCall& pristine, const OpCall&) {
  const float coef = coefficients[pristine.variant()];
  const Span<const float> grads = pristine.in<float>(0);
  return CallBounds::by(
      [coef, grads](std::size_t, std::int64_t i) { return product_bound(grads[i], coef); });
}

/// Without a limit the result is exactly 1, and whether arguments are refused is specified.
ElementBound coef_bound(const OpCall& pristine, std::size_t i, bool flag) {
  const double norm = pristine.in<double>(0)[i];
  const double max_norm = pristine.in<double>(1)[i];
  const bool has_limit = pristine.in<std::uint32_t>(2)[i] != 0;
  const bool refuses = has_limit && !(max_norm >= 0 && std::isfinite(max_norm));
  if (flag) return {refuses ? 1.0L : 0.0L, 0, true};
  if (refuses) return {0, 0, true};
  if (!has_limit || max_norm == 0) return {1, 0, true};
  return clip_coef_bound(norm, max_norm);
}

std::unique_ptr<CallBounds> coef_bounds(const OpCall& pristine, const OpCall&) {
  return CallBounds::by([&pristine](std::size_t operand, std::int64_t i) {
    return coef_bound(pristine, static_cast<std::size_t>(i), operand == 4);
  });
}

/// Limits by variant; the smallest clips nearly everything, the largest nothing.
constexpr std::array<float, 3> limits = {1e-3F, 0x1p-149F, 0x1.fffffep127F};

OpFunction run_value(ClipValueFn* implementation) {
  return [implementation](OpCall& call) {
    implementation(call.exec, limits[call.variant()], call.get<float>(0));
  };
}

/// Norms and limits near each other, so that quotients come near 1, and every kind of limit that is refused.
double drawn_norm(const PhiloxBlock& w) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr std::array<double, 12> special = {0,       0x1p-149, 1e-6, 1 - 1e-6, 1,    1e30,
                                              0x1p140, inf,      -inf, -1,       -0.0, 0x1p-1074};
  if (w[2] % 4 == 0)
    return w[2] % 64 == 0 ? std::bit_cast<double>(0x7FF8000000000000U) : special[w[3] % 12U];
  return 0.5 + static_cast<double>(std::uint64_t{w[0]} << 20 | w[1] >> 12) * 0x1p-52;
}

void draw_coef_inputs(OpCall& call) {
  for (std::int64_t i = 0; i < call.numel(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    call.get<double>(0)[at] = drawn_norm(call.words(0, i));
    call.get<double>(1)[at] = drawn_norm(call.words(1, i));
    call.get<std::uint32_t>(2)[at] = call.words(2, i)[0] % 8U == 0 ? 0U : 1U;
  }
}

}  // namespace

std::vector<Op> clip_ops() {
  Op coef;
  coef.name = "clip_coef";
  coef.contract = "clip.hpp";
  coef.type = "ClipCoefFn";
  coef.phases = {Phase::clip};
  coef.operands = {input("grad_norm", Content::given, DType::fp64),
                   input("max_norm", Content::given, DType::fp64),
                   input("has_max_norm", Content::given, DType::u32), output("clip_coef"),
                   output("refused", DType::u32)};
  coef.fills = {Fill::sweep};
  coef.generate = draw_coef_inputs;
  coef.bounds = coef_bounds;
  coef.reference = run_coef(reference::clip_coef);
  coef.host = run_coef(cuda::host::clip_coef);
  coef.device = run_coef(cuda::device::clip_coef);

  Op clip;
  clip.name = "clip";
  clip.contract = "clip.hpp";
  clip.type = "ClipFn";
  clip.phases = {Phase::clip};
  clip.variants = {"coef 0.37", "coef 1", "coef 0", "in place"};
  clip.operands = {input("unscaled_grad"), output("grad")};
  clip.fills = number_fills();
  clip.settings = [](const OpCall& call) -> std::vector<OpSetting> {
    return {{"clip_coef", double{coefficients[call.variant()]}},
            {"in_place", std::int64_t{call.variant() == 3 ? 1 : 0}}};
  };
  clip.bounds = clip_bounds;
  clip.reference = run_clip(reference::clip);
  clip.host = run_clip(cuda::host::clip);
  clip.device = run_clip(on_device<cuda::device::clip>);

  Op value;
  value.name = "clip_value";
  value.contract = "clip.hpp";
  value.type = "ClipValueFn";
  value.phases = {Phase::clip};
  value.variants = {"limit 1e-3", "limit 2^-149", "limit FLT_MAX"};
  value.operands = {in_place("grad", Content::value)};
  value.fills = number_fills();
  value.settings = [](const OpCall& call) -> std::vector<OpSetting> {
    return {{"clip_value", double{limits[call.variant()]}}};
  };
  value.one_result = "it compares, and rounds nothing";
  value.reference = run_value(reference::clip_value);
  value.host = run_value(cuda::host::clip_value);
  value.device = run_value(on_device<cuda::device::clip_value>);
  return {coef, clip, value};
}

}  // namespace zeroproof::verification
