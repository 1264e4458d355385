#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/update_operations.hpp"
#include "cuda/kernel_table.hpp"
#include "reference/operations.hpp"
#include "reference/update_operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"
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

OpFunction run(UpdateRule rule, AdamwUpdateFn* implementation) {
  return [rule, implementation](OpCall& call) {
    const UpdateSettings s = settings_of(rule, call.variant());
    const Span<float> maximum = s.hyper.amsgrad ? call.get<float>(4) : Span<float>{};
    implementation(call.exec, {s.hyper.amsgrad, s.hyper.maximize}, s.scalars, call.in<float>(0),
                   call.get<float>(1), call.get<float>(2), call.get<float>(3), maximum);
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

OpFunction run_bf16(UpdateRule rule, AdamwUpdateBf16Fn* implementation) {
  return [rule, implementation](OpCall& call) {
    const UpdateSettings s = settings_of(rule, call.variant());
    const Span<float> maximum = s.hyper.amsgrad ? call.get<float>(4) : Span<float>{};
    implementation(call.exec, {s.hyper.amsgrad, s.hyper.maximize}, s.scalars, call.in<bf16>(0),
                   call.get<bf16>(1), call.get<float>(2), call.get<float>(3), maximum);
  };
}

/// `op` of bf16 parameters, without an fp32 master (R25). On a device it is part of the step.
Op bf16_update(UpdateRule rule, Op op, std::string type, AdamwUpdateBf16Fn* reference,
               AdamwUpdateBf16Fn* host) {
  op.name += "_bf16";
  op.type = std::move(type);
  op.operands[0] = in_bf16(op.operands[0]);
  op.operands[1] = in_bf16(op.operands[1]);
  add_bounds(op, [rule](int variant) { return settings_of(rule, variant); },
             {.exp_avg = 2, .exp_avg_sq = 3, .max_exp_avg_sq = 4});
  op.reference = run_bf16(rule, reference);
  op.host = run_bf16(rule, host);
  op.device = {};
  op.host_of = {};
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
  return {adamw, adam,
          bf16_update(UpdateRule::adamw, adamw, "AdamwUpdateBf16Fn", reference::adamw_update_bf16,
                      cuda::host::adamw_update_bf16),
          bf16_update(UpdateRule::adam, adam, "AdamUpdateBf16Fn", reference::adam_update_bf16,
                      cuda::host::adam_update_bf16)};
}

}  // namespace zeroproof::verification
