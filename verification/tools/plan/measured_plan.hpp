#pragma once
// Runs the planned steps and counts the memory and the messages of real ranks.

#include "verification/tools/plan/plan.hpp"

namespace zeroproof::verification {

inline constexpr int most_measured_ranks = 64;
inline constexpr std::int64_t most_measured_leaf_elements = std::int64_t{1}
                                                            << 26;  ///< of all micro-batches

/// Runs two steps of every stage on threads, gradients of zeros, and fills in the counts.
/// Errors: ErrorCode::config for a plan that is too large to run here, or has devices, tensor
/// parallelism or clip groups.
void measure(const PlannedModel& model, Plan& plan);

}  // namespace zeroproof::verification
