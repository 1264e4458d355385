#include "cuda/host/update_twins.hpp"
#include "cuda/phase_ops.hpp"
#include "reference/update_twins.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"
#include "verification/ops/scalar_sets.hpp"

namespace zeroproof::verification {
namespace {

/// Variants are the scalar sets, each plain, with amsgrad, with maximize, and with both.
OpFunction run(AdamwUpdateFn* twin) {
  return [twin](OpCall& call) {
    AdamOptions options;
    options.amsgrad = call.variant() % 2 == 1;
    options.maximize = call.variant() / 2 % 2 == 1;
    const Span<float> maximum = options.amsgrad ? call.get<float>(4) : Span<float>{};
    twin(call.exec, options, scalar_set(call.variant() / 4), call.in<float>(0), call.get<float>(1),
         call.get<float>(2), call.get<float>(3), maximum);
  };
}

Op rule(std::string name, std::string type, AdamwUpdateFn* reference, AdamwUpdateFn* host,
        AdamwUpdateFn* device, AdamwUpdateFn* cuda::PhaseOps::*in_table) {
  Op op;
  op.name = std::move(name);
  op.contract = "adam.hpp";
  op.type = std::move(type);
  op.phases = {Phase::update};
  for (const std::string& scalars : scalar_set_names()) {
    for (const char* options : {"plain", "amsgrad", "maximize", "amsgrad and maximize"}) {
      op.variants.push_back(scalars + " " + options);
    }
  }
  op.operands = {input("grad"), in_place("master", Content::weight), in_place("exp_avg", Content::moment),
                 in_place("exp_avg_sq", Content::second_moment),
                 in_place("max_exp_avg_sq", Content::second_moment)};
  op.fills = number_fills();
  op.largest = 8209;
  op.reference = run(reference);
  op.host = run(host);
  op.device = run(device);
  op.host_of = [in_table](const cuda::PhaseOps& ops) { return run(ops.*in_table); };
  return op;
}

}  // namespace

std::vector<Op> adam_ops() {
  return {rule("adamw_update", "AdamwUpdateFn", reference::adamw_update, cuda::host::adamw_update,
               on_device<cuda::device::adamw_update>, &cuda::PhaseOps::adamw_update),
          rule("adam_update", "AdamUpdateFn", reference::adam_update, cuda::host::adam_update,
               on_device<cuda::device::adam_update>, &cuda::PhaseOps::adam_update)};
}

}  // namespace zeroproof::verification
