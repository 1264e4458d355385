// Planted faults as a plug-in: ZP_FAULT names the one in its table. The functions are linked into
// it.

#include <cstdlib>
#include <iterator>

#include "cuda/kernel_table.hpp"
#include "verification/cli/program/plant.hpp"
#include "verification/interfaces/capi/zeroproof_plugin.h"

namespace {

using namespace zeroproof;

const cuda::KernelTable& ops() {
  static const cuda::KernelTable table = [] {
    const char* fault = std::getenv("ZP_FAULT");
    return fault == nullptr ? cuda::host_ops() : verification::plant_fault(fault, cuda::host_ops());
  }();
  return table;
}

template <class T = float>
Span<T> get(const zeroproof_call* call, int k) {
  const zeroproof_operand& operand = call->operands[k];
  return {static_cast<T*>(operand.tensor.data),
          static_cast<std::size_t>(zeroproof_numel(&operand))};
}

template <class T = float>
Span<const T> in(const zeroproof_call* call, int k) {
  return get<T>(call, k);
}

Exec exec(const zeroproof_call* call) { return {.num_threads = call->num_threads}; }
bool flag(const zeroproof_call* call, const char* name) {
  return zeroproof_integer(call, name, 0) != 0;
}

StepScalars scalars(const zeroproof_call* call) {
  const auto real = [&](const char* name) { return zeroproof_real(call, name, 0); };
  StepScalars s;
  s.beta1 = real("beta1");
  s.beta2 = real("beta2");
  s.one_minus_beta1 = real("scalar.one_minus_beta1");
  s.one_minus_beta2 = real("scalar.one_minus_beta2");
  s.sqrt_bias_correction2 = real("scalar.sqrt_bias_correction2");
  s.step_size = real("scalar.step_size");
  s.eps = real("scalar.eps");
  s.lr_weight_decay = real("scalar.lr_weight_decay");
  s.weight_decay = real("scalar.weight_decay");
  s.lr = real("scalar.lr");
  s.momentum = real("scalar.momentum");
  s.one_minus_dampening = real("scalar.one_minus_dampening");
  s.has_decay = flag(call, "scalar.has_decay") ? 1 : 0;
  s.is_first = flag(call, "scalar.is_first") ? 1 : 0;
  return s;
}

template <AdamwUpdateFn* cuda::UpdateOperations::*implementation>
int32_t adam(const zeroproof_call* call) {
  const AdamOptions options = {flag(call, "amsgrad"), flag(call, "maximize")};
  (ops().*implementation)(exec(call), options, scalars(call), in(call, 0), get(call, 1),
                          get(call, 2), get(call, 3),
                          options.amsgrad ? get(call, 4) : Span<float>{});
  return 0;
}

int32_t sgd(const zeroproof_call* call) {
  const bool momentum = zeroproof_real(call, "momentum", 0) != 0;
  ops().sgd_update(exec(call), {momentum, flag(call, "nesterov"), flag(call, "maximize")},
                   scalars(call), in(call, 0), get(call, 1),
                   momentum ? get(call, 2) : Span<float>{});
  return 0;
}

int32_t lion(const zeroproof_call* call) {
  ops().lion_update(exec(call), {flag(call, "maximize")}, scalars(call), in(call, 0), get(call, 1),
                    get(call, 2));
  return 0;
}

int32_t lamb(const zeroproof_call* call) {
  ops().lamb_update(exec(call), {flag(call, "maximize")}, scalars(call),
                    static_cast<float>(zeroproof_real(call, "trust_ratio", 0)), in(call, 0),
                    get(call, 1), get(call, 2), get(call, 3));
  return 0;
}

int32_t momentum(const zeroproof_call* call) {
  ops().muon_momentum(exec(call), {flag(call, "nesterov"), flag(call, "maximize")}, scalars(call),
                      in(call, 0), get(call, 1), get(call, 2));
  return 0;
}

/// A setting that is no fp32 number.
double wide(const zeroproof_call* call, const char* name) {
  return zeroproof_find_setting(call, name)->value.real;
}

int32_t newton_schulz(const zeroproof_call* call) {
  const auto whole = [&](const char* name) { return zeroproof_integer(call, name, 0); };
  const NewtonSchulzOptions options = {static_cast<NewtonSchulzSet>(whole("coefficients")),
                                       static_cast<int>(whole("steps")),
                                       static_cast<PolynomialForm>(whole("form")),
                                       static_cast<MatrixFactors>(whole("factors")),
                                       static_cast<NormFloor>(whole("floor")),
                                       wide(call, "eps"),
                                       flag(call, "rounds_first")};
  ops().newton_schulz(exec(call), options, whole("rows"), whole("columns"), in(call, 0),
                      get(call, 1));
  return 0;
}

int32_t muon_step_size(const zeroproof_call* call) {
  MuonSettings settings;
  settings.scale = static_cast<MuonScale>(zeroproof_integer(call, "scale", 0));
  settings.scale_factor = wide(call, "scale_factor");
  for (std::int64_t i = 0; i < zeroproof_numel(&call->operands[2]); ++i) {
    const std::int64_t rows = in<std::uint32_t>(call, 0)[i],
                       columns = in<std::uint32_t>(call, 1)[i];
    const bool refused = rows < 1 || columns < 1;
    get<std::uint32_t>(call, 3)[i] = refused ? 1 : 0;
    get(call, 2)[i] = refused ? 0 : ops().muon_step_size(settings, scalars(call), rows, columns);
  }
  return 0;
}

int32_t muon_update(const zeroproof_call* call) {
  ops().muon_update(exec(call), scalars(call),
                    static_cast<float>(zeroproof_real(call, "step_size", 0)), in(call, 0),
                    get(call, 1));
  return 0;
}

int32_t unscale(const zeroproof_call* call) {
  const float factor = zeroproof_real(call, "inv_scale", 0);
  get<std::uint32_t>(call, 2)[0] =
      ops().unscale(exec(call), factor, in(call, 0), get(call, 1)) ? 1 : 0;
  return 0;
}

int32_t to_bf16(const zeroproof_call* call) {
  ops().cast_to_bf16(exec(call), in(call, 0), get<bf16>(call, 1));
  return 0;
}

int32_t to_fp16(const zeroproof_call* call) {
  ops().cast_to_fp16(exec(call), in(call, 0), get<fp16>(call, 1));
  return 0;
}

constexpr zeroproof_operation table[] = {{"adamw_update", adam<&cuda::KernelTable::adamw_update>},
                                         {"adam_update", adam<&cuda::KernelTable::adam_update>},
                                         {"sgd_update", sgd},
                                         {"lion_update", lion},
                                         {"lamb_update", lamb},
                                         {"muon_momentum", momentum},
                                         {"newton_schulz", newton_schulz},
                                         {"muon_step_size", muon_step_size},
                                         {"muon_update", muon_update},
                                         {"unscale", unscale},
                                         {"cast_to_bf16", to_bf16},
                                         {"cast_to_fp16", to_fp16}};
constexpr zeroproof_plugin description = {
    ZEROPROOF_PLUGIN_ABI, sizeof(zeroproof_plugin), "faults", table, std::size(table), nullptr};

}  // namespace

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) { return &description; }
