#pragma once
// How far a matrix after a step of muon in fp32 may be from exact arithmetic ([Bound:muon_step]).

#include <optional>

#include "common/base/span.hpp"
#include "common/contracts/step_scalars.hpp"

namespace zeroproof::verification {

/// A matrix of a step, row after row.
struct MuonStepMatrix {
  std::int64_t rows = 0, columns = 0;
  Span<const float> grad;
  Span<const float> exp_avg;         ///< after the step
  Span<const float> before, master;  ///< parameters before and after it
};

/// The distance of `master` from exact arithmetic, divided by its bound over all legal orders with factors in fp32. Nothing
/// if there is no bound, or if it is as large as the update.
///
/// Units    scale: z of R28, by which the orthogonal matrix is multiplied beside lr. The form of the products is not read.
/// Errors   invalid_argument as step_scalars and NewtonSchulzFn.
std::optional<double> muon_step_share(const OptimizerHyper& hyper, double scale,
                                      const MuonStepMatrix& matrix);

}  // namespace zeroproof::verification
