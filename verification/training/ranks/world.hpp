#pragma once
// The ranks of a case: threads of this process, or one in each process of an MPI job.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/comm/flight_recorder.hpp"
#include "common/comm/threads.hpp"
#include "verification/cases/result.hpp"
#include "verification/compare/judge/rank_comparison.hpp"

namespace zeroproof::verification {

class World {
 public:
  using RankWork = std::function<void(int rank, const RankComparison::Communicators& comms)>;
  virtual ~World() = default;
  virtual int size() const = 0;

  /// Runs the work for every rank of this process. If it throws for a rank, the others are aborted
  /// and the first error is rethrown.
  virtual void run(const RankWork& work) = 0;

  /// Reports of all ranks of the case, from those of this process (others are empty). Complete on the process
  /// that has rank 0.
  virtual std::vector<RankReport> collect(std::vector<RankReport> local) = 0;

  /// Sets the current position of a rank of this process, for reports of lost ranks.
  virtual void set_place(int /*rank*/, const std::string& /*what*/) {}

  /// The last collectives of ranks that are threads; those of processes are read by the process
  /// that started them. Call while no rank runs.
  virtual std::vector<RankFlight> flights() const { return {}; }
};

/// Ranks of this process: "self", "threads:N" or, as if on several hosts, "threads:N+M".
std::unique_ptr<World> make_local_world(const WorldSpec& spec, double timeout_s);

}  // namespace zeroproof::verification
