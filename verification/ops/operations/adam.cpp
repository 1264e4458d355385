#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/update_operations.hpp"
#include "cuda/kernel_table.hpp"
#include "reference/operations.hpp"
#include "reference/update_operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"
#include "verification/ops/operations/bf16_update.hpp"
#include "verification/ops/operations/update_call_bounds.hpp"

namespace zeroproof::verification {
namespace {

/// Variants are the sets of settings, each plain, with amsgrad, with maximize, and with both.
UpdateSettings settings_of(UpdateRule rule, int variant) {
  OptimizerHyper options;
  options.rule = rule;
  options.amsgrad = variant % 2 == 1;
  options.maximize = variant / 2 % 2 == 1;
  return update_settings(variant / 4, options);
}

template <class Number>
OpFunction run(UpdateRule rule,
               void (*implementation)(const Exec&, const AdamOptions&, const StepScalars&,
                                      Span<const Number>, Span<Number>, Span<float>, Span<float>,
                                      Span<float>)) {
  return [rule, implementation](OpCall& call) {
    const UpdateSettings s = settings_of(rule, call.variant());
    const Span<float> maximum = s.hyper.amsgrad ? call.get<float>(4) : Span<float>{};
    implementation(call.exec, {s.hyper.amsgrad, s.hyper.maximize}, s.scalars, call.in<Number>(0),
                   call.get<Number>(1), call.get<float>(2), call.get<float>(3), maximum);
  };
}

Op update(UpdateRule rule, std::string name, std::string type, AdamwUpdateFn* reference,
          AdamwUpdateFn* host, AdamwUpdateFn* device, AdamwUpdateFn* cuda::KernelTable::*in_table) {
  Op op;
  op.name = std::move(name);
  op.contract = "adam.hpp";
  op.type = std::move(type);
  op.phases = {Phase::update};
  op.variants = update_variants({"plain", "amsgrad", "maximize", "amsgrad and maximize"});
  op.operands = {input("grad"), in_place("master", Content::weight),
                 in_place("exp_avg", Content::moment),
                 in_place("exp_avg_sq", Content::second_moment),
                 in_place("max_exp_avg_sq", Content::second_moment)};
  op.fills = number_fills();
  op.largest = 8209;
  op.settings = [rule](const OpCall& call) { return described(settings_of(rule, call.variant())); };
  add_bounds(op, [rule](int variant) { return settings_of(rule, variant); },
             {.exp_avg = 2, .exp_avg_sq = 3, .max_exp_avg_sq = 4});
  op.reference = run(rule, reference);
  op.host = run(rule, host);
  op.device = run(rule, device);
  op.host_of = [rule, in_table](const cuda::KernelTable& ops) { return run(rule, ops.*in_table); };
  return op;
}

}  // namespace

std::vector<Op> adam_ops() {
  const Op adamw = update(UpdateRule::adamw, "adamw_update", "AdamwUpdateFn",
                          reference::adamw_update, cuda::host::adamw_update,
                          on_device<cuda::device::adamw_update>, &cuda::KernelTable::adamw_update);
  const Op adam = update(UpdateRule::adam, "adam_update", "AdamUpdateFn", reference::adam_update,
                         cuda::host::adam_update, on_device<cuda::device::adam_update>,
                         &cuda::KernelTable::adam_update);
  return {
      adamw, adam,
      bf16_update(adamw, "AdamwUpdateBf16Fn", run(UpdateRule::adamw, reference::adamw_update_bf16),
                  run(UpdateRule::adamw, cuda::host::adamw_update_bf16)),
      bf16_update(adam, "AdamUpdateBf16Fn", run(UpdateRule::adam, reference::adam_update_bf16),
                  run(UpdateRule::adam, cuda::host::adam_update_bf16))};
}

}  // namespace zeroproof::verification
