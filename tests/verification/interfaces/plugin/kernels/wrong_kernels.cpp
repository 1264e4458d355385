// Results of the reference with one error, selected by ZP_KERNEL: operations and kinds of errors
// without a planted fault.

#include <algorithm>
#include <utility>

#include "common/base/error.hpp"
#include "reference/operations.hpp"
#include "tests/verification/interfaces/plugin/kernels/kernel.hpp"

namespace {

using namespace kernels;
using namespace zeroproof;

template <class T = float>
Span<T> all(const zeroproof_call* call, int operand) {
  return {data<T>(call, operand),
          static_cast<std::size_t>(zeroproof_numel(&call->operands[operand]))};
}

/// found_nan_only: an infinite product sets no flag.
std::int32_t unscale(const zeroproof_call* call) {
  bool found = reference::unscale({}, real(call, "inv_scale"), all(call, 0), all(call, 1));
  if (chosen("found_nan_only")) {
    found = std::ranges::any_of(all(call, 1), [](float x) { return std::isnan(x); });
  }
  data<std::uint32_t>(call, 2)[0] = found ? 1 : 0;
  return 0;
}

/// numel_of_call_before: covers as many elements as the previous call.
/// in_place_forgotten: does not change a buffer that is input and output.
std::int32_t clip(const zeroproof_call* call) {
  static std::size_t before = all(call, 0).size();
  std::size_t covered = all(call, 0).size();
  if (chosen("numel_of_call_before")) covered = std::min(covered, std::exchange(before, covered));
  if (chosen("in_place_forgotten") && data(call, 0) == data(call, 1)) return 0;
  reference::clip({}, real(call, "clip_coef"), all(call, 0).first(covered),
                  all(call, 1).first(covered));
  return 0;
}

/// nan_clipped: minimum and maximum replace a NaN by the limit.
std::int32_t clip_value(const zeroproof_call* call) {
  const float limit = real(call, "clip_value");
  reference::clip_value({}, limit, all(call, 0));
  for (float& g : all(call, 0)) g = std::isnan(g) && chosen("nan_clipped") ? limit : g;
  return 0;
}

/// norm_without_eps: the limit is divided by the norm alone.
std::int32_t clip_coef(const zeroproof_call* call) {
  for (std::int64_t i = 0; i < numel(call); ++i) {
    const double norm = data<double>(call, 0)[i], limit = data<double>(call, 1)[i];
    const bool has = data<std::uint32_t>(call, 2)[i] != 0;
    const bool refused = has && !(limit >= 0 && std::isfinite(limit));
    float coef =
        refused ? 0 : reference::clip_coef(norm, has ? std::optional(limit) : std::nullopt);
    if (chosen("norm_without_eps") && has && !refused && limit / norm < 1)
      coef = static_cast<float>(limit / norm);
    data(call, 3)[i] = coef;
    data<std::uint32_t>(call, 4)[i] = refused ? 1 : 0;
  }
  return 0;
}

/// sum_without_tail: whole vectors of 8 only.
std::int32_t grad_norm_p(const zeroproof_call* call) {
  const auto covered =
      static_cast<std::size_t>(chosen("sum_without_tail") ? numel(call) / 8 * 8 : numel(call));
  *data<double>(call, 1) =
      reference::grad_norm_p({}, all(call, 0).first(covered), configured(call, "p"));
  return 0;
}

LossScalerConfig config_of(const std::int32_t* w) {
  return {static_cast<LossScalerKind>(w[0]),  w[1], w[2], w[3], w[4], w[5], w[6], w[7],
          static_cast<HysteresisRefill>(w[8])};
}

/// floor_ignored: a backoff goes below the least scale.
std::int32_t loss_scaler(const zeroproof_call* call) {
  for (std::int64_t i = 0; i < call->operands[2].tensor.shape[0]; ++i) {
    LossScalerConfig config = config_of(data<std::int32_t>(call, 0) + 9 * i);
    const bool overflow = data<std::uint32_t>(call, 2)[i] != 0;
    LossScalerState& after = data<LossScalerState>(call, 3)[i] = data<LossScalerState>(call, 1)[i];
    std::uint32_t& refused = data<std::uint32_t>(call, 4)[i] = 1;
    try {
      const LossScalerState before = after;
      after = reference::loss_scaler_update(config, before, overflow);
      refused = 0;
      config.log2_min = -1000;
      if (chosen("floor_ignored")) after = reference::loss_scaler_update(config, before, overflow);
    } catch (const Error&) {
    }
  }
  return 0;
}

/// not_saturated: NaN for too large numbers.
std::int32_t to_e4m3(const zeroproof_call* call) {
  reference::cast_to_e4m3({}, all(call, 0), all<e4m3>(call, 1));
  for (std::int64_t i = 0; i < numel(call); ++i) {
    if (chosen("not_saturated") && std::fabs(data(call, 0)[i]) >= 464)
      data<std::uint8_t>(call, 1)[i] |= 0x7FU;
  }
  return 0;
}

/// words_shared: two elements have the same random word.
std::int32_t stochastic(const zeroproof_call* call) {
  for (std::int64_t i = 0; i < numel(call); ++i) {
    const auto index = static_cast<std::uint64_t>(chosen("words_shared") ? i / 2 * 2 : i);
    const RoundingDraw draw = {word(call, "seed"), word(call, "step"),
                               word(call, "first_index") + index};
    reference::stochastic_cast_to_bf16({}, draw, all(call, 0).subspan(i, 1),
                                       all<bf16>(call, 1).subspan(i, 1));
  }
  return 0;
}

/// subnormals_flushed: subnormal numbers become 0.
std::int32_t from_fp16(const zeroproof_call* call) {
  reference::widen_fp16({}, all<const fp16>(call, 0), all(call, 1));
  for (std::int64_t i = 0; i < numel(call); ++i) {
    const bool subnormal = (data<std::uint16_t>(call, 0)[i] & 0x7C00U) == 0;
    if (chosen("subnormals_flushed") && subnormal) data(call, 1)[i] *= 0;
  }
  return 0;
}

constexpr zeroproof_operation table[] = {
    {"unscale", unscale},         {"clip", clip},
    {"clip_value", clip_value},   {"clip_coef", clip_coef},
    {"grad_norm_p", grad_norm_p}, {"loss_scaler_update", loss_scaler},
    {"cast_to_e4m3", to_e4m3},    {"stochastic_cast_to_bf16", stochastic},
    {"widen_fp16", from_fp16}};

}  // namespace

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) { return library(table); }
