#pragma once

#include "verification/bench/measure/huge_buffer.hpp"
#include "verification/bench/measure/limit_loops.hpp"
#include "verification/bench/measure/worker_team.hpp"

namespace zeroproof::verification::bench {

/// How fast memory is right now. A machine that shares its memory with others has a speed of the minute; what is timed
/// between two looks can be told from it.
class MemoryProbe {
 public:
  /// team outlives this.
  explicit MemoryProbe(WorkerTeam& team);

  /// Seconds of one pass over two buffers of 32 MiB: 12 bytes for each of `numel` elements.
  double seconds();

  static constexpr std::int64_t numel = std::int64_t{1} << 23;

 private:
  WorkerTeam& team_;
  const LimitLoops& loops_;
  HugeBuffer<float> sum_{numel}, added_{numel};
};

}  // namespace zeroproof::verification::bench
