#include "reference/blocks.hpp"
#include "reference/checks.hpp"
#include "reference/update/adaptive_step.hpp"
#include "reference/update/bf16_update.hpp"
#include "reference/update_operations.hpp"

namespace zeroproof::reference {
namespace {

void adamw_block(const AdamOptions& options, const StepScalars& s, AdamBlock x) {
  const Block u = decoupled_step(options, s, x);
  x.master -= u;
}

void adam_block(const AdamOptions& options, const StepScalars& s, AdamBlock x) {
  const Block g = directed_with_decay(options.maximize, s, x.grad, x.master);
  const Block a = adaptive_step(options, s, g, x);
  x.master -= a;
}

/// Checks the lengths and runs `update` block by block.
template <class UpdateBlock>
void update(const char* operation, const AdamOptions& options, const StepScalars& scalars,
            Span<const float> grad, Span<float> master, Span<float> exp_avg, Span<float> exp_avg_sq,
            Span<float> max_exp_avg_sq, UpdateBlock update_block) {
  check_same_numel(operation, "grad", grad.size(), "master", master.size());
  check_same_numel(operation, "grad", grad.size(), "exp_avg", exp_avg.size());
  check_same_numel(operation, "grad", grad.size(), "exp_avg_sq", exp_avg_sq.size());
  check_optional_buffer(operation, "max_exp_avg_sq", options.amsgrad, max_exp_avg_sq.size(),
                        grad.size());
  for_each_block(numel(grad), [&](std::int64_t begin, std::int64_t count) {
    const auto block = [&](auto view) { return as_array(part(view, begin, count)); };
    update_block(options, scalars,
                 AdamBlock{block(grad), block(master), block(exp_avg), block(exp_avg_sq),
                           options.amsgrad ? block(max_exp_avg_sq) : as_array(max_exp_avg_sq)});
  });
}

}  // namespace

void adamw_update(const Exec&, const AdamOptions& options, const StepScalars& scalars,
                  Span<const float> grad, Span<float> master, Span<float> exp_avg,
                  Span<float> exp_avg_sq, Span<float> max_exp_avg_sq) {
  update("adamw_update", options, scalars, grad, master, exp_avg, exp_avg_sq, max_exp_avg_sq,
         adamw_block);
}

void adam_update(const Exec&, const AdamOptions& options, const StepScalars& scalars,
                 Span<const float> grad, Span<float> master, Span<float> exp_avg,
                 Span<float> exp_avg_sq, Span<float> max_exp_avg_sq) {
  update("adam_update", options, scalars, grad, master, exp_avg, exp_avg_sq, max_exp_avg_sq,
         adam_block);
}

void adamw_update_bf16(const Exec&, const AdamOptions& options, const StepScalars& scalars,
                       Span<const bf16> grad, Span<bf16> master, Span<float> exp_avg,
                       Span<float> exp_avg_sq, Span<float> max_exp_avg_sq) {
  update_bf16(grad, master, [&](Span<const float> g, Span<float> p) {
    update("adamw_update_bf16", options, scalars, g, p, exp_avg, exp_avg_sq, max_exp_avg_sq,
           adamw_block);
  });
}

void adam_update_bf16(const Exec&, const AdamOptions& options, const StepScalars& scalars,
                      Span<const bf16> grad, Span<bf16> master, Span<float> exp_avg,
                      Span<float> exp_avg_sq, Span<float> max_exp_avg_sq) {
  update_bf16(grad, master, [&](Span<const float> g, Span<float> p) {
    update("adam_update_bf16", options, scalars, g, p, exp_avg, exp_avg_sq, max_exp_avg_sq,
           adam_block);
  });
}

}  // namespace zeroproof::reference
