#pragma once
// One step of a model small enough to read: every value of every phase on every rank, and when it was computed.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/layout/flat_layout.hpp"
#include "common/layout/shard_map.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "verification/predict/predicted_step.hpp"

namespace zeroproof::verification {

inline constexpr int most_traced_ranks = 4;
inline constexpr std::int64_t most_traced_micro_batches = 16;

struct TraceSettings {
  int stage = 2;
  int world_size = 2;              ///< 1 to most_traced_ranks
  std::int64_t micro_batches = 4;  ///< 1 to most_traced_micro_batches
  UpdateRule rule = UpdateRule::adamw;
};

/// A copy of what a tap saw.
struct TracedBuffer {
  Phase phase = Phase::prepare;
  BufferId id = BufferId::step_scalars;
  DType dtype = DType::fp32;
  std::vector<FlatRange> ranges;  ///< as in ExposedBuffer
  std::vector<std::byte> bytes;

  std::int64_t numel() const { return static_cast<std::int64_t>(bytes.size()) / num_bytes(dtype); }
  /// Bits of an element, zero-extended.
  std::uint64_t bits(std::int64_t element) const;
};

/// A stretch of time on a track, in nanoseconds since the trace began.
struct TracedSpan {
  std::string name;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

struct TracedRank {
  std::vector<TracedBuffer> buffers;  ///< in the order in which they were exposed
  std::vector<TracedBuffer>
      held;  ///< every buffer that exists, after the step (DistributedOptimizer::storage)
  std::vector<TracedSpan> phases;
  std::vector<TracedSpan> collectives;
};

/// 16 parameters in three tensors, as optimizers see them.
class TracedModel {
 public:
  explicit TracedModel(std::int64_t micro_batches);

  const FlatLayout& layout() const { return layout_; }
  const std::vector<std::vector<float>>& leaves() const { return leaves_; }  // [M][padded_numel]
  FullState initial_state() const;

 private:
  FlatLayout layout_;
  std::vector<std::vector<float>> leaves_;
  std::vector<float> master_, zeros_;  // [padded_numel]
};

struct StepTrace {
  TraceSettings settings;
  TracedModel model;
  ShardMap shards;
  DType param_dtype = DType::bf16;
  std::vector<TracedRank> reference;   // [world_size]
  std::vector<TracedRank> production;  // [world_size]

  /// Of a rank, for the numbers of micro-batches and nodes.
  PredictedStep shape(int rank) const;
};

/// Everything of a traced setup but comm.
OptimizerSetup traced_setup(const TraceSettings& settings, const TracedModel& model, const ShardMap& shards);

/// Runs one step of both implementations, ranks as threads. Values are those of the reference; no value depends on
/// time.
/// Errors: ErrorCode::config if a setting is out of range.
StepTrace trace_step(const TraceSettings& settings);

/// Tables of all values, at most 100 columns.
std::string trace_text(const StepTrace& trace, bool colour);

/// Which rank holds, and in which phase writes, which elements of which class of memory, as bars of one column per
/// parameter.
std::string memory_map_text(const StepTrace& trace);

/// Chrome trace event format (JSON): one process per side, one thread for a rank's phases and one for its collectives.
std::string timeline_json(const StepTrace& trace);

}  // namespace zeroproof::verification
