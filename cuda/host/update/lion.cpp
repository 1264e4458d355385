#include "cuda/host/base/check.hpp"
#include "cuda/host/update/run_update.hpp"
#include "cuda/host/update_operations.hpp"

namespace zeroproof::cuda::host {

void lion_update(const Exec& exec, const LionOptions& options, const StepScalars& scalars,
                 Span<const float> grad, Span<float> master, Span<float> exp_avg) {
  require_same_numel("lion_update", "grad", grad.size(), "master", master.size());
  require_same_numel("lion_update", "grad", grad.size(), "exp_avg", exp_avg.size());
  run_update(exec, {UpdateRule::lion, false, false, false}, options.maximize, scalars,
             {grad.data(), master.data(), {exp_avg.data()}}, numel(grad));
}

}  // namespace zeroproof::cuda::host
