#include "cuda/host/base/check.hpp"
#include "cuda/host/update/run_update.hpp"
#include "cuda/host/update_operations.hpp"

namespace zeroproof::cuda::host {
namespace {

constexpr UpdateForm lion_form{UpdateRule::lion, false, false, false};

void check_lion(const char* op, std::size_t grad, std::size_t master, std::size_t exp_avg) {
  require_same_numel(op, "grad", grad, "master", master);
  require_same_numel(op, "grad", grad, "exp_avg", exp_avg);
}

}  // namespace

void lion_update(const Exec& exec, const LionOptions& options, const StepScalars& scalars,
                 Span<const float> grad, Span<float> master, Span<float> exp_avg) {
  check_lion("lion_update", grad.size(), master.size(), exp_avg.size());
  run_update(exec, lion_form, options.maximize, scalars,
             {grad.data(), master.data(), {exp_avg.data()}}, numel(grad));
}

void lion_update_bf16(const Exec& exec, const LionOptions& options, const StepScalars& scalars,
                      Span<const bf16> grad, Span<bf16> master, Span<float> exp_avg) {
  check_lion("lion_update_bf16", grad.size(), master.size(), exp_avg.size());
  run_bf16_update(exec, lion_form, options.maximize, scalars, grad, master, {exp_avg.data()});
}

}  // namespace zeroproof::cuda::host
