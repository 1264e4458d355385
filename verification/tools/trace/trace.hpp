#pragma once
// A few steps of a model small enough to read: every value of every phase on every rank, and when
// it was computed.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/comm/collective_call.hpp"
#include "common/layout/shard_map.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "verification/tools/plan/predict/predicted_step.hpp"
#include "verification/tools/trace/traced_model.hpp"
#include "verification/tools/trace/unit_sightings.hpp"

namespace zeroproof::verification {

/// A copy of an observed buffer.
struct TracedBuffer {
  Phase phase = Phase::prepare;
  BufferId id = BufferId::step_scalars;
  DType dtype = DType::fp32;
  std::vector<FlatRange> ranges;  ///< as in ExposedBuffer
  std::vector<std::byte> bytes;

  std::int64_t numel() const { return static_cast<std::int64_t>(bytes.size()) / num_bytes(dtype); }
  /// Bits of an element, zero-extended.
  std::uint64_t bits(std::int64_t element) const;
  /// Elements of an fp32 buffer.
  Span<const float> floats() const;
};

/// A stretch of time on a track, in nanoseconds since the trace began.
struct TracedSpan {
  std::string name;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  Phase phase = Phase::prepare;
  std::vector<std::int64_t> sent =
      {};         ///< [world_size] bytes to every rank, of a collective; 0 to itself
  int place = 0;  ///< as TracedMemory's, of a collective
};

/// Bytes of a class of memory after something that changed them.
struct TracedMemory {
  Phase phase = Phase::prepare;
  std::string at;
  MemoryClass kind = MemoryClass::master;
  std::int64_t bytes = 0;
  std::int64_t change = 0;
  int place = 0;  ///< number in the order of everything seen on this rank in this step
};

/// A micro-batch whose gradient a rank computes, whole or (stage 3) down to its first unit.
struct TracedLeaf {
  std::int64_t micro_batch = 0;
  int place = 0;  ///< as TracedMemory's
};

/// One step of one rank.
struct TracedStep {
  std::int64_t t = 0;       ///< number of the update: applied steps + 1
  int log2_loss_scale = 0;  ///< of the scale that its leaves carry
  bool skipped = false;
  std::vector<TracedBuffer> before;   ///< buffers kept between steps, before this one
  std::vector<TracedBuffer> buffers;  ///< in the order in which they were exposed
  std::vector<TracedBuffer>
      held;  ///< every buffer that exists, after the step (DistributedOptimizer::storage)
  std::vector<TracedSpan> phases;
  std::vector<TracedSpan> collectives;
  std::vector<TracedLeaf> leaves;
  std::vector<UnitSighting> sightings;  ///< stage 3, of an implementation that counts
  std::vector<TracedVisit> visits;      ///< of units, from the sightings of all ranks
  std::vector<TracedMemory> memory;     ///< of an implementation that counts
};

struct TracedRank {
  std::vector<TracedStep> steps;
};

struct StepTrace {
  TraceSettings settings;
  TracedModel model;
  ShardMap shards;
  std::vector<TracedRank> reference;   // [world_size]
  std::vector<TracedRank> production;  // [world_size]

  /// The side whose values are shown: the reference, or production with a planted fault.
  const std::vector<TracedRank>& shown() const {
    return settings.fault.empty() ? reference : production;
  }
  /// Leaves of a step of the side that is shown, widened to fp32: [M][padded_numel], padding NaN.
  std::vector<std::vector<float>> leaves(std::size_t step) const;
  /// Of a rank, for the numbers of micro-batches and nodes.
  PredictedStep shape(int rank) const;
};

/// Everything of a traced setup but comm.
OptimizerSetup traced_setup(const TraceSettings& settings, const TracedModel& model,
                            const ShardMap& shards);

/// Runs the steps with both implementations, ranks as threads. Values are those of the reference;
/// no value depends on time.
/// Errors: ErrorCode::config if a setting is out of range; unavailable for a fault in a program
/// without them.
StepTrace trace_step(const TraceSettings& settings);

/// Tables of all values, at most 100 columns.
std::string trace_text(const StepTrace& trace, bool colour);

/// The elements of each class of memory that each rank stores, and the phases that write them, as
/// bars of one column per parameter. Of the first step; the others are equal.
std::string memory_map_text(const StepTrace& trace);

/// All values as JSON (zeroproof-trace/1).
std::string trace_json(const StepTrace& trace);

/// A player of the events of the same values, as one page: no requests, the same bytes for the same
/// trace.
/// Errors (ErrorCode::config): it would have more than 400,000 bytes.
std::string trace_html(const StepTrace& trace);

/// Chrome trace event format (JSON): one process per side, one thread for a rank's phases and one
/// for its collectives.
std::string timeline_json(const StepTrace& trace);

}  // namespace zeroproof::verification
