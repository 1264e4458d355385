// Passes operands and settings of the plug-in interface to AdamwUpdateFn.

#include "plugin_wrapper.hpp"

namespace zeroproof::wrapper {
namespace {

StepScalars scalars_of(const zeroproof_call* call) {
  const auto real = [&](const char* name) { return zeroproof_real(call, name, 0); };
  StepScalars scalars = {};
  scalars.beta1 = real("beta1");
  scalars.one_minus_beta1 = real("scalar.one_minus_beta1");
  scalars.beta2 = real("beta2");
  scalars.one_minus_beta2 = real("scalar.one_minus_beta2");
  scalars.sqrt_bias_correction2 = real("scalar.sqrt_bias_correction2");
  scalars.step_size = real("scalar.step_size");
  scalars.eps = real("scalar.eps");
  scalars.lr_weight_decay = real("scalar.lr_weight_decay");
  scalars.weight_decay = real("scalar.weight_decay");
  scalars.lr = real("scalar.lr");
  scalars.has_decay = static_cast<std::uint32_t>(zeroproof_integer(call, "scalar.has_decay", 0));
  return scalars;
}

std::int32_t run(const zeroproof_call* call) {
  const AdamOptions options = {zeroproof_integer(call, "amsgrad", 0) != 0,
                               zeroproof_integer(call, "maximize", 0) != 0};
  const auto state = [&](int k) { return Span<float>(data<float>(call, k), size(call)); };
  return whole(call, [&] {
    mine::adamw_update({call->num_threads}, options, scalars_of(call), state(0), state(1), state(2),
                       state(3), options.amsgrad ? state(4) : Span<float>());
  });
}

}  // namespace
}  // namespace zeroproof::wrapper

PUZZLE_PLUGIN("adamw_update", zeroproof::wrapper::run)
