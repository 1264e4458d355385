// The forms of the norm other than chunk1024.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/compare/bounds/step_bounds.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/limb_words.hpp"
#include "verification/ops/on_device.hpp"

namespace zeroproof::verification {
namespace {

OpFunction run_max(GradMaxAccumulateFn* implementation) {
  return [implementation](OpCall& call) {
    const Span<const float> grad = call.in<float>(0);
    std::uint32_t amax =
        call.variant() == 1 ? 0x3A83126FU : 0;  // 1e-3, among the largest of the training fill
    const std::size_t cut = call.variant() == 2 ? grad.size() / 3 : 0;
    if (cut > 0) implementation(call.exec, grad.first(cut), amax);
    implementation(call.exec, grad.subspan(cut), amax);
    call.get<std::uint32_t>(1)[0] = amax;
  };
}

OpFunction run_max_finish(GradMaxFinishFn* implementation) {
  return [implementation](OpCall& call) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
      call.get<double>(1)[i] = implementation(call.in<std::uint32_t>(0)[i]);
    }
  };
}

Op accumulation(std::string name, std::string type, const OpFunction& reference,
                const OpFunction& host, const OpFunction& device) {
  Op op;
  op.name = std::move(name);
  op.contract = "grad_norm.hpp";
  op.type = std::move(type);
  op.exactness = Exactness::integer;
  op.phases = {Phase::norm};
  op.variants = {"from zero", "onto something", "two pieces"};
  op.operands = {input("grad"), fixed(output("limbs", DType::u64), limb_words)};
  op.fills = number_fills();
  op.reference = reference;
  op.host = host;
  op.device = device;
  return op;
}

std::vector<Op> limb_forms() {
  namespace r = reference;
  namespace h = cuda::host;
  namespace d = cuda::device;
  // Forms that may be cut anywhere: pieces are cut at odd places.
  return {
      accumulation(
          "grad_norm_exact_accumulate", "GradNormExactAccumulateFn",
          run_accumulate(r::grad_norm_exact_accumulate, r::grad_norm_normalise, 1),
          run_accumulate(h::grad_norm_exact_accumulate, h::grad_norm_normalise, 1),
          run_accumulate(on_device<d::grad_norm_exact_accumulate>, h::grad_norm_normalise, 1)),
      accumulation("grad_abs_accumulate", "GradAbsAccumulateFn",
                   run_accumulate(r::grad_abs_accumulate, r::grad_norm_normalise, 1),
                   run_accumulate(h::grad_abs_accumulate, h::grad_norm_normalise, 1),
                   run_accumulate(on_device<d::grad_abs_accumulate>, h::grad_norm_normalise, 1))};
}

Op abs_finish() {
  Op op;
  op.name = "grad_abs_finish";
  op.contract = "grad_norm.hpp";
  op.type = "GradAbsFinishFn";
  op.phases = {Phase::norm};
  op.operands = {per_element(input("limbs", Content::given, DType::u64), limb_words),
                 output("grad_norm", DType::fp64)};
  op.fills = {Fill::sweep};
  op.largest = 4097;
  op.generate = draw_limbs;
  op.reference = run_limbs_finish(reference::grad_abs_finish);
  op.host = run_limbs_finish(cuda::host::grad_abs_finish);
  op.device = run_limbs_finish(cuda::device::grad_abs_finish);
  return op;
}

std::vector<Op> max_forms() {
  Op max = accumulation("grad_max_accumulate", "GradMaxAccumulateFn",
                        run_max(reference::grad_max_accumulate),
                        run_max(cuda::host::grad_max_accumulate),
                        run_max(on_device<cuda::device::grad_max_accumulate>));
  max.operands = {input("grad"), fixed(output("amax", DType::u32), 1)};
  Op finish = abs_finish();
  finish.name = "grad_max_finish";
  finish.type = "GradMaxFinishFn";
  finish.operands = {input("amax", Content::value, DType::u32), output("grad_norm", DType::fp64)};
  finish.fills = {Fill::patterns};
  finish.generate = {};
  finish.reference = run_max_finish(reference::grad_max_finish);
  finish.host = run_max_finish(cuda::host::grad_max_finish);
  finish.device = run_max_finish(cuda::device::grad_max_finish);
  return {max, finish};
}

constexpr double powers[] = {0.5, 1, 1.5, 2, 3, 7.25, 64};

OpFunction run_p(GradNormPFn* implementation) {
  return [implementation](OpCall& call) {
    call.get<double>(1)[0] = implementation(call.exec, call.in<float>(0), powers[call.variant()]);
  };
}

/// Error / allowed error; the special values are not a matter of bounds.
double p_norm_ratio(const OpCall& call) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const Span<const float> grad = call.in<float>(0);
  const double got = call.in<double>(1)[0];
  const float special = nonfinite_of(grad);
  if (special != 0) return ElementBound{special, 0, true}.ratio(got) == 0 ? 0 : nan;
  const long double p = powers[call.variant()];
  const long double truth = exact_norm(grad, p);
  if (truth == 0) return std::bit_cast<std::uint64_t>(got) == 0 ? 0 : nan;
  if (truth > std::numeric_limits<double>::max()) return 0;  // the bound is for finite results
  const long double allowed =
      1.01L * ((static_cast<long double>(grad.size()) + 50) / p + 8) * 0x1p-53L * truth;
  return static_cast<double>(std::fabs(static_cast<long double>(got) - truth) / allowed);
}

std::unique_ptr<CallBounds> p_norm_bounds(const OpCall& pristine, const OpCall&) {
  return CallBounds::by([&pristine](std::size_t, std::int64_t) {
    return norm_bound(pristine.in<float>(0), powers[pristine.variant()]);
  });
}

Op p_norm() {
  Op op;
  op.name = "grad_norm_p";
  op.contract = "grad_norm.hpp";
  op.type = "GradNormPFn";
  op.exactness = Exactness::bounded;
  op.phases = {Phase::norm};
  op.variants = {"p 0.5", "p 1", "p 1.5", "p 2", "p 3", "p 7.25", "p 64"};
  op.operands = {input("grad"), fixed(output("grad_norm", DType::fp64), 1)};
  op.fills = number_fills();
  op.largest = 4099;
  op.reference = run_p(reference::grad_norm_p);
  op.host = run_p(cuda::host::grad_norm_p);
  op.device = run_p(on_device<cuda::device::grad_norm_p>);
  op.settings = [](const OpCall& call) -> std::vector<OpSetting> {
    return {{"p", powers[call.variant()]}};
  };
  op.contract_ratio = p_norm_ratio;
  op.bounds = p_norm_bounds;
  return op;
}

}  // namespace

std::vector<Op> norm_form_ops() {
  std::vector<Op> ops = limb_forms();
  ops.push_back(abs_finish());
  for (Op& op : max_forms()) ops.push_back(std::move(op));
  ops.push_back(p_norm());
  return ops;
}

}  // namespace zeroproof::verification
