// Wrong updates of Adam and AdamW from public bugs: whole functions in place of the host
// implementations. The correct parts follow R6.

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/float_formats.hpp"
#include "cuda/host/update_operations.hpp"
#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

float signed_grad(const AdamOptions& options, float grad) {
  return options.maximize ? -grad : grad;
}

void add_moments(const StepScalars& c, float g, float& m, float& v) {
  m = c.beta1 * m + c.one_minus_beta1 * g;
  v = c.beta2 * v + c.one_minus_beta2 * (g * g);
}

float decayed(const StepScalars& c, float x, float update) {
  return x - (c.has_decay != 0 ? update + c.lr_weight_decay * x : update);
}

void do_nothing(const Exec&, const AdamOptions&, const StepScalars&, Span<const float>, Span<float>,
                Span<float>, Span<float>, Span<float>) {}

/// The parameter decays after the update has moved it.
void decay_after_update(const Exec&, const AdamOptions& options, const StepScalars& c,
                        Span<const float> grad, Span<float> master, Span<float> exp_avg,
                        Span<float> exp_avg_sq, Span<float>) {
  for (std::size_t i = 0; i < grad.size(); ++i) {
    add_moments(c, signed_grad(options, grad[i]), exp_avg[i], exp_avg_sq[i]);
    const float denominator = std::sqrt(exp_avg_sq[i]) / c.sqrt_bias_correction2 + c.eps;
    const float moved = master[i] - c.step_size * (exp_avg[i] / denominator);
    master[i] = moved - c.lr_weight_decay * moved;
  }
}

/// eps is divided by the bias correction too.
void eps_under_bias_correction(const Exec&, const AdamOptions& options, const StepScalars& c,
                               Span<const float> grad, Span<float> master, Span<float> exp_avg,
                               Span<float> exp_avg_sq, Span<float>) {
  for (std::size_t i = 0; i < grad.size(); ++i) {
    add_moments(c, signed_grad(options, grad[i]), exp_avg[i], exp_avg_sq[i]);
    const float denominator = (std::sqrt(exp_avg_sq[i]) + c.eps) / c.sqrt_bias_correction2;
    master[i] = decayed(c, master[i], c.step_size * (exp_avg[i] / denominator));
  }
}

/// A fast reciprocal root, and eps added to it: infinite where the moment is zero.
void eps_after_rsqrt(const Exec&, const AdamOptions& options, const StepScalars& c,
                     Span<const float> grad, Span<float> master, Span<float> exp_avg,
                     Span<float> exp_avg_sq, Span<float>) {
  for (std::size_t i = 0; i < grad.size(); ++i) {
    add_moments(c, signed_grad(options, grad[i]), exp_avg[i], exp_avg_sq[i]);
    const float inverse = c.sqrt_bias_correction2 / std::sqrt(exp_avg_sq[i]) + c.eps;
    master[i] -= c.step_size * (exp_avg[i] * inverse) + c.lr_weight_decay * master[i];
  }
}

/// The second moment is stored in 16 bits.
void half_moments(const Exec&, const AdamOptions& options, const StepScalars& c,
                  Span<const float> grad, Span<float> master, Span<float> exp_avg,
                  Span<float> exp_avg_sq, Span<float>) {
  for (std::size_t i = 0; i < grad.size(); ++i) {
    float v = exp_avg_sq[i];
    add_moments(c, signed_grad(options, grad[i]), exp_avg[i], v);
    exp_avg_sq[i] = to_float(to_bf16(v));
    const float denominator = std::sqrt(v) / c.sqrt_bias_correction2 + c.eps;
    master[i] = decayed(c, master[i], c.step_size * (exp_avg[i] / denominator));
  }
}

/// Whole vectors of 16 are correct. The loop over the remainder uses the moment instead of its
/// root.
void tail_without_root(const Exec& exec, const AdamOptions& options, const StepScalars& c,
                       Span<const float> grad, Span<float> master, Span<float> exp_avg,
                       Span<float> exp_avg_sq, Span<float> maximum) {
  const std::size_t body = grad.size() / 16 * 16;
  cuda::host::adamw_update(exec, options, c, grad.first(body), master.first(body),
                           exp_avg.first(body), exp_avg_sq.first(body),
                           maximum.first(std::min(body, maximum.size())));
  for (std::size_t i = body; i < grad.size(); ++i) {
    add_moments(c, signed_grad(options, grad[i]), exp_avg[i], exp_avg_sq[i]);
    const float denominator = exp_avg_sq[i] / c.sqrt_bias_correction2 + c.eps;
    master[i] = decayed(c, master[i], c.step_size * (exp_avg[i] / denominator));
  }
}

/// State is reallocated in every step.
void zeroed_state(const Exec& exec, const AdamOptions& options, const StepScalars& c,
                  Span<const float> grad, Span<float> master, Span<float> exp_avg,
                  Span<float> exp_avg_sq, Span<float> maximum) {
  std::ranges::fill(exp_avg, 0.0F);
  cuda::host::adamw_update(exec, options, c, grad, master, exp_avg, exp_avg_sq, maximum);
}

/// The running maximum is used but not stored.
void maximum_not_kept(const Exec& exec, const AdamOptions& options, const StepScalars& c,
                      Span<const float> grad, Span<float> master, Span<float> exp_avg,
                      Span<float> exp_avg_sq, Span<float> maximum) {
  std::vector<float> taken(maximum.begin(), maximum.end());
  cuda::host::adamw_update(exec, options, c, grad, master, exp_avg, exp_avg_sq, taken);
}

/// Elements are counted in 12 bits, one of them a sign.
void narrow_count(const Exec& exec, const AdamOptions& options, const StepScalars& c,
                  Span<const float> grad, Span<float> master, Span<float> exp_avg,
                  Span<float> exp_avg_sq, Span<float> maximum) {
  const auto bits = static_cast<std::int64_t>(grad.size() & 0xFFFU);
  const std::int64_t counted = bits >= 0x800 ? bits - 0x1000 : bits;
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(counted, 0));
  cuda::host::adamw_update(exec, options, c, grad.first(count), master.first(count),
                           exp_avg.first(count), exp_avg_sq.first(count),
                           maximum.first(std::min(count, maximum.size())));
}

/// A vector kernel that rounds the length up: writes behind the last element, up to a full vector
/// of 16.
void whole_vectors(const Exec& exec, const AdamOptions& options, const StepScalars& c,
                   Span<const float> grad, Span<float> master, Span<float> exp_avg,
                   Span<float> exp_avg_sq, Span<float> maximum) {
  cuda::host::adamw_update(exec, options, c, grad, master, exp_avg, exp_avg_sq, maximum);
  const std::size_t end = (grad.size() + 15) / 16 * 16;
  for (std::size_t i = grad.size(); i < end; ++i) exp_avg.data()[i] = 0;
}

}  // namespace

bool put_wrong_adam(std::string_view fault, cuda::KernelTable& ops) {
  struct Row {
    std::string_view fault;
    AdamwUpdateFn* implementation;
  };
  constexpr Row rows[] = {{"do-nothing", do_nothing},
                          {"decay-after-update", decay_after_update},
                          {"eps-under-bias-correction", eps_under_bias_correction},
                          {"eps-after-rsqrt", eps_after_rsqrt},
                          {"moments-in-half", half_moments},
                          {"root-missing-in-tail", tail_without_root},
                          {"state-zeroed-each-step", zeroed_state},
                          {"amsgrad-max-not-kept", maximum_not_kept},
                          {"narrow-element-count", narrow_count},
                          {"vector-writes-into-padding", whole_vectors}};
  for (const Row& row : rows) {
    if (row.fault != fault) continue;
    ops.adamw_update = row.implementation;
    return true;
  }
  if (fault != "decoupled-for-l2") return false;
  ops.adam_update = cuda::host::adamw_update;
  return true;
}

}  // namespace zeroproof::verification
