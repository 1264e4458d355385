// Update rules that keep one buffer, or none.

#include "cuda/host/update_twins.hpp"
#include "cuda/phase_ops.hpp"
#include "reference/update_twins.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"
#include "verification/ops/scalar_sets.hpp"

namespace zeroproof::verification {
namespace {

constexpr int sgd_forms = 5;  // plain, maximize, momentum, nesterov, nesterov and maximize

OpFunction run_sgd(SgdUpdateFn* twin) {
  return [twin](OpCall& call) {
    const int form = call.variant() % sgd_forms;
    SgdOptions options;
    options.momentum = form >= 2;
    options.nesterov = form >= 3;
    options.maximize = form == 1 || form == 4;
    const Span<float> buffer = options.momentum ? call.get<float>(2) : Span<float>{};
    twin(call.exec, options, scalar_set(call.variant() / sgd_forms), call.in<float>(0), call.get<float>(1),
         buffer);
  };
}

/// options.maximize is all there is to choose.
template <class Options>
OpFunction run_average(void (*twin)(const Exec&, const Options&, const StepScalars&, Span<const float>,
                                    Span<float>, Span<float>)) {
  return [twin](OpCall& call) {
    Options options;
    options.maximize = call.variant() % 2 == 1;
    twin(call.exec, options, scalar_set(call.variant() / 2), call.in<float>(0), call.get<float>(1),
         call.get<float>(2));
  };
}

std::vector<std::string> variants(std::initializer_list<const char*> forms) {
  std::vector<std::string> all;
  for (const std::string& scalars : scalar_set_names()) {
    for (const char* form : forms) all.push_back(scalars + " " + form);
  }
  return all;
}

}  // namespace

std::vector<Op> one_buffer_ops() {
  Op sgd;
  sgd.name = "sgd_update";
  sgd.contract = "sgd.hpp";
  sgd.type = "SgdUpdateFn";
  sgd.phases = {Phase::update};
  sgd.variants = variants({"plain", "maximize", "momentum", "nesterov", "nesterov and maximize"});
  sgd.operands = {input("grad"), in_place("master", Content::weight),
                  in_place("momentum_buffer", Content::moment)};
  sgd.fills = number_fills();
  sgd.largest = 8209;
  sgd.reference = run_sgd(reference::sgd_update);
  sgd.host = run_sgd(cuda::host::sgd_update);
  sgd.device = run_sgd(on_device<cuda::device::sgd_update>);
  sgd.host_of = [](const cuda::PhaseOps& ops) { return run_sgd(ops.sgd_update); };

  Op ema = sgd;
  ema.name = "sgd_ema_update";
  ema.type = "SgdEmaUpdateFn";
  ema.variants = variants({"plain", "maximize"});
  ema.operands[2].name = "exp_avg";
  ema.reference = run_average(reference::sgd_ema_update);
  ema.host = run_average(cuda::host::sgd_ema_update);
  ema.device = run_average(on_device<cuda::device::sgd_ema_update>);
  ema.host_of = [](const cuda::PhaseOps& ops) { return run_average(ops.sgd_ema_update); };

  Op lion = ema;
  lion.name = "lion_update";
  lion.contract = "lion.hpp";
  lion.type = "LionUpdateFn";
  lion.reference = run_average(reference::lion_update);
  lion.host = run_average(cuda::host::lion_update);
  lion.device = run_average(on_device<cuda::device::lion_update>);
  lion.host_of = [](const cuda::PhaseOps& ops) { return run_average(ops.lion_update); };
  return {sgd, ema, lion};
}

}  // namespace zeroproof::verification
