#pragma once
// What it costs that a part of the state lies elsewhere: a step, against the slower of the two things it cannot do
// without.

#include <string>
#include <vector>

#include "verification/bench/measure/row.hpp"
#include "verification/bench/measure/worker_team.hpp"
#include "verification/bench/product/product_case.hpp"

namespace zeroproof::verification::bench {

/// One fraction in one place. Samples are by round.
struct OffloadResult {
  ProductCase what;           ///< one rank, with its offload
  std::vector<double> plain;  ///< seconds of a step that offloads nothing
  std::vector<double> step;   ///< of a step that does
  std::vector<double>
      moved;  ///< place file: the bytes read and written, and nothing else; empty for the host
  std::vector<Check> checks;

  /// Of the file, in a step: read once and written once.
  double moved_bytes() const;
  /// The floor of a round is the plain step, or moving the bytes if that takes longer: one hides behind the other.
  std::vector<double> step_to_floor() const;
};

/// Fractions 0.5 and 1 in memory of the host and in a file of `folder` that has no name. Errors: io; unavailable for
/// memory.
std::vector<OffloadResult> measure_offload(ProductCase what, int rounds, WorkerTeam& team,
                                           const std::string& folder);

}  // namespace zeroproof::verification::bench
