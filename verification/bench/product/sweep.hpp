#pragma once
// Whether the product's step grows in a straight line with what it is given.

#include <string>
#include <vector>

#include "verification/bench/measure/line_fit.hpp"
#include "verification/bench/measure/row.hpp"
#include "verification/bench/measure/worker_team.hpp"
#include "verification/bench/product/product_case.hpp"

namespace zeroproof::verification::bench {

struct SweepPoint {
  ProductCase what;
  double x = 0;                            ///< parameters, tensors, micro-batches, buckets or ranks
  std::vector<double> seconds = {};        ///< of each step
  std::vector<double> probe_seconds = {};  ///< of the memory probe around it
  double settled = 0;                      ///< seconds of a step while memory has its usual speed

  /// Takes the median of step / probe, at a probe of `usual_probe` seconds.
  double settle(double usual_probe);
};

struct SweepAxis {
  std::string name;   ///< "tensors"
  std::string fixed;  ///< what all points share
  std::vector<SweepPoint> points;
  LineFit fit = {};
  std::vector<double> residuals = {};  ///< [points]

  double worst_residual() const { return worst(residuals); }
};

struct Sweep {
  std::vector<SweepAxis> axes;
  std::vector<Check> checks;
};

/// The axes around a number of parameters (the sum of the tensors axis is 25/4 of it, so that 102,400 tensors of a
/// chunk make up 16 Mi * 25/4). Points that a small number cannot have are left out.
std::vector<SweepAxis> sweep_axes(std::int64_t numel, std::int64_t bucket_numel, int threads);

/// Goes through all points of an axis `passes` times, in another order each time; every time an optimizer is made,
/// takes two steps that are not kept and five that are, between two looks at the speed of memory: what else a machine
/// does lasts from milliseconds to minutes, and moves both. In the first pass the bits are compared with the
/// contract's.
/// Errors: as require_possible.
Sweep run_sweep(std::vector<SweepAxis> axes, int passes, WorkerTeam& team);

}  // namespace zeroproof::verification::bench
