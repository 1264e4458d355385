#include "cuda/host/fused_step.hpp"
#include "cuda/host/step_scalars.hpp"
#include "cuda/host/update_twins.hpp"
#include "verification/bench/suite.hpp"

namespace zeroproof::verification::bench {
namespace {

namespace host = cuda::host;

StepScalars scalars_of(const Data& data, UpdateRule rule) {
  OptimizerHyper hyper = data.hyper;
  hyper.rule = rule;
  if (traits_of(rule).momentum_buffer) hyper.momentum = 0.9;
  return host::step_scalars(hyper, 10, 10, 3);
}

}  // namespace

void add_rule_rows(std::vector<Row>& rows, Data& data, int num_threads) {
  Exec exec;
  exec.num_threads = num_threads;
  const Span<const float> grad = data.grad_sum.span();
  const Span<float> p = data.rules.master.span(), m = data.rules.exp_avg.span(),
                    v = data.rules.exp_avg_sq.span();
  const Span<float> most = data.max_exp_avg_sq.span();
  const StepScalars adam = scalars_of(data, UpdateRule::adam), sgd = scalars_of(data, UpdateRule::sgd);
  const StepScalars ema = scalars_of(data, UpdateRule::sgd_ema), lion = scalars_of(data, UpdateRule::lion);
  const auto add = [&](const char* name, double num_bytes, const char* limit, auto body) {
    rows.push_back({name, num_bytes, data.numel, body, {}, {}, {limit}});
  };
  add("adamw, amsgrad", 36, "5R4W", [=, &data] {
    host::adamw_update(exec, {true, false}, data.scalars, grad, p, m, v, most);
  });
  add("adam", 28, "4R3W", [=] { host::adam_update(exec, {}, adam, grad, p, m, v, {}); });
  add("adam, amsgrad", 36, "5R4W", [=] {
    host::adam_update(exec, {true, false}, adam, grad, p, m, v, most);
  });
  add("sgd", 12, "2R1W", [=] { host::sgd_update(exec, {}, sgd, grad, p, {}); });
  add("sgd, momentum", 20, "3R2W", [=] { host::sgd_update(exec, {true, false, false}, sgd, grad, p, m); });
  add("sgd, nesterov", 20, "3R2W", [=] { host::sgd_update(exec, {true, true, false}, sgd, grad, p, m); });
  add("sgd_ema", 20, "3R2W", [=] { host::sgd_ema_update(exec, {}, ema, grad, p, m); });
  add("lion", 20, "3R2W", [=] { host::lion_update(exec, {}, lion, grad, p, m); });
  const TensorView param{data.half.data(), DType::bf16, data.numel};
  const host::FusedState state{p, m, v};
  add("fused adamw", 30, "4R3W+W2",
      [=, &data] { host::fused_update(exec, {}, data.scalars, 0.5F, grad, state, param); });
  host::FusedOptions drawn;
  drawn.draw = RoundingDraw{1, 10, 0};
  add("fused adamw, drawn", 30, "4R3W+W2",
      [=, &data] { host::fused_update(exec, drawn, data.scalars, 0.5F, grad, state, param); });
}

}  // namespace zeroproof::verification::bench
