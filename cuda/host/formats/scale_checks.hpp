#pragma once
// Argument checks of scale recipes, shared by host and device.

#include <cstdint>
#include <string>

#include "common/base/error.hpp"
#include "common/contracts/scale_recipe.hpp"

namespace zeroproof::cuda {

inline void require_epsilon(float epsilon) {
  ZP_CHECK(epsilon >= 0 && epsilon < __builtin_inff(), ErrorCode::invalid_argument,
           "current_scales: epsilon is " + std::to_string(epsilon),
           "it is the smallest magnitude that makes a scale", "use a finite number of at least 0");
}

inline void require_history(const DelayedScaling& options, std::size_t history,
                            std::size_t num_tensors) {
  ZP_CHECK(options.margin >= 0 && options.margin <= 64 && options.history >= 1 &&
               options.history <= 1024,
           ErrorCode::invalid_argument,
           "delayed_scales: margin " + std::to_string(options.margin) + ", history " +
               std::to_string(options.history),
           "a margin is 0 to 64 bits, a history 1 to 1,024 slots", "pass numbers in these ranges");
  const auto slots = static_cast<std::size_t>(options.history);
  ZP_CHECK(history % slots == 0 && history / slots == num_tensors, ErrorCode::invalid_argument,
           "delayed_scales: history has " + std::to_string(history) + " slots but " +
               std::to_string(num_tensors) + " tensors have " + std::to_string(options.history) +
               " each",
           "tensors would use the history of other tensors",
           "store the slots of each tensor contiguously");
}

}  // namespace zeroproof::cuda
