#include <algorithm>
#include <array>
#include <cmath>

#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/kernel_table.hpp"
#include "reference/operations.hpp"
#include "verification/compare/bounds/step_bounds.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"

namespace zeroproof::verification {
namespace {

/// inv_scale by variant: 1, one third, small enough to make subnormals, large enough to overflow; the last is in place.
constexpr std::array<float, 5> factors = {1.0F, 0x1.555556p-2F, 0x1p-126F, 0x1p126F, 0x1p-17F};

OpFunction run(UnscaleFn* implementation) {
  return [implementation](OpCall& call) {
    const float factor = factors[call.variant()];
    const Span<float> target = call.get<float>(1);
    Span<const float> source = call.in<float>(0);
    if (call.variant() == 4) {
      std::copy_n(source.data(), target.size(), target.data());
      source = target;
    }
    call.get<std::uint32_t>(2)[0] = implementation(call.exec, factor, source, target) ? 1U : 0U;
  };
}

/// The flag must match the candidate's own results.
std::unique_ptr<CallBounds> bounds_of(const OpCall& pristine, const OpCall& candidate) {
  const float factor = factors[pristine.variant()];
  const Span<const float> sums = pristine.in<float>(0);
  const Span<const float> written = candidate.in<float>(1);
  const bool found =
      std::any_of(written.begin(), written.end(), [](float x) { return !std::isfinite(x); });
  return CallBounds::by([factor, sums, found](std::size_t operand, std::int64_t i) -> ElementBound {
    if (operand == 2) return {found ? 1.0L : 0.0L, 0, true};
    return product_bound(sums[i], factor);
  });
}

}  // namespace

std::vector<Op> grad_scale_ops() {
  Op op;
  op.name = "unscale";
  op.contract = "grad_scale.hpp";
  op.type = "UnscaleFn";
  op.phases = {Phase::unscale};
  op.variants = {"scale 1", "scale 1/3", "scale 2^-126", "scale 2^126", "in place"};
  op.operands = {input("grad_sum"), output("unscaled_grad"),
                 fixed(output("found_inf", DType::u32), 1)};
  op.fills = number_fills();
  op.settings = [](const OpCall& call) -> std::vector<OpSetting> {
    return {{"inv_scale", double{factors[call.variant()]}},
            {"in_place", std::int64_t{call.variant() == 4 ? 1 : 0}}};
  };
  op.bounds = bounds_of;
  op.reference = run(reference::unscale);
  op.host = run(cuda::host::unscale);
  op.device = run(on_device<cuda::device::unscale>);
  op.host_of = [](const cuda::KernelTable& ops) { return run(ops.unscale); };
  return {op};
}

}  // namespace zeroproof::verification
