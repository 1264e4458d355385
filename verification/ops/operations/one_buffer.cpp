// Update rules that keep one buffer, or none.

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

constexpr int sgd_forms = 5;  // plain, maximize, momentum, nesterov, nesterov and maximize

UpdateSettings sgd_settings(int variant) {
  const int form = variant % sgd_forms;
  OptimizerHyper options;
  options.rule = UpdateRule::sgd;
  options.momentum = form >= 2 ? 0.9 : 0;
  options.nesterov = form >= 3;
  options.maximize = form == 1 || form == 4;
  return update_settings(variant / sgd_forms, options);
}

template <class Number>
OpFunction run_sgd(void (*implementation)(const Exec&, const SgdOptions&, const StepScalars&,
                                          Span<const Number>, Span<Number>, Span<float>)) {
  return [implementation](OpCall& call) {
    const UpdateSettings s = sgd_settings(call.variant());
    const bool momentum = s.hyper.momentum != 0;
    const Span<float> buffer = momentum ? call.get<float>(2) : Span<float>{};
    implementation(call.exec, {momentum, s.hyper.nesterov, s.hyper.maximize}, s.scalars,
                   call.in<Number>(0), call.get<Number>(1), buffer);
  };
}

/// maximize is the only option.
UpdateSettings average_settings(UpdateRule rule, int variant) {
  OptimizerHyper options;
  options.rule = rule;
  options.maximize = variant % 2 == 1;
  return update_settings(variant / 2, options);
}

template <class Options, class Number>
OpFunction run_average(UpdateRule rule,
                       void (*implementation)(const Exec&, const Options&, const StepScalars&,
                                              Span<const Number>, Span<Number>, Span<float>)) {
  return [rule, implementation](OpCall& call) {
    const UpdateSettings s = average_settings(rule, call.variant());
    implementation(call.exec, {s.hyper.maximize}, s.scalars, call.in<Number>(0),
                   call.get<Number>(1), call.get<float>(2));
  };
}

}  // namespace

std::vector<Op> one_buffer_ops() {
  Op sgd;
  sgd.name = "sgd_update";
  sgd.contract = "sgd.hpp";
  sgd.type = "SgdUpdateFn";
  sgd.phases = {Phase::update};
  sgd.variants =
      update_variants({"plain", "maximize", "momentum", "nesterov", "nesterov and maximize"});
  sgd.operands = {input("grad"), in_place("master", Content::weight),
                  in_place("momentum_buffer", Content::moment)};
  sgd.fills = number_fills();
  sgd.largest = 8209;
  sgd.settings = [](const OpCall& call) { return described(sgd_settings(call.variant())); };
  add_bounds(sgd, sgd_settings, {.momentum_buffer = 2});
  sgd.reference = run_sgd(reference::sgd_update);
  sgd.host = run_sgd(cuda::host::sgd_update);
  sgd.device = run_sgd(on_device<cuda::device::sgd_update>);
  sgd.host_of = [](const cuda::KernelTable& ops) { return run_sgd(ops.sgd_update); };

  Op ema = sgd;
  ema.name = "sgd_ema_update";
  ema.type = "SgdEmaUpdateFn";
  ema.variants = update_variants({"plain", "maximize"});
  ema.operands[2].name = "exp_avg";
  ema.settings = [](const OpCall& call) {
    return described(average_settings(UpdateRule::sgd_ema, call.variant()));
  };
  add_bounds(ema, [](int variant) { return average_settings(UpdateRule::sgd_ema, variant); },
             {.exp_avg = 2});
  ema.reference = run_average(UpdateRule::sgd_ema, reference::sgd_ema_update);
  ema.host = run_average(UpdateRule::sgd_ema, cuda::host::sgd_ema_update);
  ema.device = run_average(UpdateRule::sgd_ema, on_device<cuda::device::sgd_ema_update>);
  ema.host_of = [](const cuda::KernelTable& ops) {
    return run_average(UpdateRule::sgd_ema, ops.sgd_ema_update);
  };

  Op lion = ema;
  lion.name = "lion_update";
  lion.contract = "lion.hpp";
  lion.type = "LionUpdateFn";
  lion.settings = [](const OpCall& call) {
    return described(average_settings(UpdateRule::lion, call.variant()));
  };
  add_bounds(lion, [](int variant) { return average_settings(UpdateRule::lion, variant); },
             {.exp_avg = 2});
  lion.reference = run_average(UpdateRule::lion, reference::lion_update);
  lion.host = run_average(UpdateRule::lion, cuda::host::lion_update);
  lion.device = run_average(UpdateRule::lion, on_device<cuda::device::lion_update>);
  lion.host_of = [](const cuda::KernelTable& ops) {
    return run_average(UpdateRule::lion, ops.lion_update);
  };
  return {sgd, ema, lion,
          bf16_update(sgd, "SgdUpdateBf16Fn", run_sgd(reference::sgd_update_bf16),
                      run_sgd(cuda::host::sgd_update_bf16)),
          bf16_update(lion, "LionUpdateBf16Fn",
                      run_average(UpdateRule::lion, reference::lion_update_bf16),
                      run_average(UpdateRule::lion, cuda::host::lion_update_bf16))};
}

}  // namespace zeroproof::verification
