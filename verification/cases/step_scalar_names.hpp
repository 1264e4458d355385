#pragma once
// Names of the words of StepScalars, for reports.

#include <array>
#include <string_view>

#include "common/contracts/step_scalars.hpp"

namespace zeroproof::verification {

/// In the order of the members. All are fp32 but the last two, which are flags.
inline constexpr std::array<std::string_view, num_step_scalar_words> step_scalar_names = {
    "inv_scale",
    "beta1",
    "one_minus_beta1",
    "beta2",
    "one_minus_beta2",
    "sqrt_bias_correction2",
    "step_size",
    "eps",
    "lr_weight_decay",
    "weight_decay",
    "lr",
    "momentum",
    "one_minus_dampening",
    "has_decay",
    "is_first"};
inline constexpr std::size_t num_step_scalar_flags = 2;

}  // namespace zeroproof::verification
