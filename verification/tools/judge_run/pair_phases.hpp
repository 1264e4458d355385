#pragma once
// The phases of the same step of two recordings: equal bits, or within the sum of the bounds of both sides.

#include "verification/tools/judge_run/pair_findings.hpp"

namespace zeroproof::verification {

struct PairSettings {
  /// Gradients of different kernels may differ by this times the largest element of the tensor.
  std::optional<double> gradients_within;
};

PairFindings compare_settings(const RunPair& pair);
/// before: the step before, or null if a side has none. is_first: of the recordings.
PairFindings compare_state(const RunPair& pair, const RunPair* before, bool is_first);
/// largest: gets the largest difference without a verdict, in units of the largest element of its tensor.
PairFindings compare_backward(const RunPair& pair, const RunPair* before,
                              const PairSettings& settings, double& largest);
PairFindings compare_reduce(const RunPair& pair, const PairSettings& settings);
PairFindings compare_overflow(const RunPair& pair);
PairFindings compare_norm(const RunPair& pair);
PairFindings compare_clip(const RunPair& pair);
PairFindings compare_update(const RunPair& pair);
PairFindings compare_cast(const RunPair& pair);

}  // namespace zeroproof::verification
