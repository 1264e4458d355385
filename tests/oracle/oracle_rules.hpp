#pragma once
// The update rules of the oracle, with the signatures of the implementations.

#include <bit>

#include "common/base/span.hpp"
#include "common/contracts/adam.hpp"
#include "common/contracts/lamb.hpp"
#include "common/contracts/lion.hpp"
#include "common/contracts/sgd.hpp"
#include "oracle.h"

namespace zeroproof::tests {

inline oracle_scalars scalars_for_oracle(const StepScalars& s) {
  static_assert(sizeof(oracle_scalars) == sizeof(StepScalars));
  return std::bit_cast<oracle_scalars>(s);
}

/// decoupled: adamw, otherwise adam.
inline void adam_by_oracle(bool decoupled, const AdamOptions& options, const StepScalars& s,
                           Span<const float> grad, Span<float> master, Span<float> exp_avg,
                           Span<float> exp_avg_sq, Span<float> max_exp_avg_sq) {
  const oracle_scalars scalars = scalars_for_oracle(s);
  const oracle_adam_options flags{decoupled ? 1 : 0, options.amsgrad ? 1 : 0,
                                  options.maximize ? 1 : 0};
  oracle_adam(&flags, &scalars, grad.data(), master.data(), exp_avg.data(), exp_avg_sq.data(),
              max_exp_avg_sq.data(), grad.size());
}

inline void sgd_by_oracle(const SgdOptions& options, const StepScalars& s, Span<const float> grad,
                          Span<float> master, Span<float> momentum_buffer) {
  const oracle_scalars scalars = scalars_for_oracle(s);
  const oracle_sgd_options flags{options.momentum ? 1 : 0, options.nesterov ? 1 : 0,
                                 options.maximize ? 1 : 0};
  oracle_sgd(&flags, &scalars, grad.data(), master.data(), momentum_buffer.data(), grad.size());
}

inline void sgd_ema_by_oracle(const SgdEmaOptions& options, const StepScalars& s,
                              Span<const float> grad, Span<float> master, Span<float> exp_avg) {
  const oracle_scalars scalars = scalars_for_oracle(s);
  oracle_sgd_ema(options.maximize ? 1 : 0, &scalars, grad.data(), master.data(), exp_avg.data(),
                 grad.size());
}

inline void lion_by_oracle(const LionOptions& options, const StepScalars& s, Span<const float> grad,
                           Span<float> master, Span<float> exp_avg) {
  const oracle_scalars scalars = scalars_for_oracle(s);
  oracle_lion(options.maximize ? 1 : 0, &scalars, grad.data(), master.data(), exp_avg.data(),
              grad.size());
}

inline void lamb_by_oracle(const LambOptions& options, const StepScalars& s, float trust_ratio,
                           Span<const float> grad, Span<float> master, Span<float> exp_avg,
                           Span<float> exp_avg_sq) {
  const oracle_scalars scalars = scalars_for_oracle(s);
  oracle_lamb(options.maximize ? 1 : 0, &scalars, trust_ratio, grad.data(), master.data(),
              exp_avg.data(), exp_avg_sq.data(), nullptr, grad.size());
}

}  // namespace zeroproof::tests
