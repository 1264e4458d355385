#pragma once
// State and master that are not kept in fp32, on a device (R25): the update reads codes, computes in registers and
// stores codes; there is no fp32 state anywhere. A warp takes a block of 128 elements, so that the largest magnitude of
// a block never leaves the registers of its warp.
//
// Of a block that a cut between ranks goes through, a rank has a fragment, whose values wait until the ranks have
// joined their largest magnitudes. A step: collected = 0; stored update; [collected over ranks, as a maximum]
// store_fragments. Everything is enqueued on the current stream, nothing waits, nothing is allocated, no argument
// changes between steps. Needs no CUDA.

#include <cstdint>

#include "common/step/state_format.hpp"
#include "cuda/device/step/step_memory.hpp"
#include "cuda/device/step/step_passes.hpp"

namespace zeroproof::cuda::device {

/// A buffer of a rule as it is kept.
struct StoredBuffer {
  void* codes = nullptr;  // [shard_numel] in its format; null: none that a pass stores
  float* scale_inv =
      nullptr;  // [blocks of the rank] if the format has scales, null otherwise, as the two below
  float* waiting = nullptr;            // values of the fragments, to be stored
  std::uint64_t* collected = nullptr;  // [num_words]: amax of this rank, then of all
  StateFormat format = StateFormat::fp32;
};

/// A stretch of the shard that is one of the undistributed tensor too, and its blocks. It begins and ends with blocks,
/// or where it is cut off.
struct StoredPiece {
  StepPiece step;
  std::int64_t first_scale = 0;  ///< of its first block, among those of the rank
  std::int32_t before = 0;       ///< elements of its first block that stand before it: 0 to 127
  std::int32_t head =
      -1;  ///< fragment that its part of its first block is; -1: all of that block is here
  std::int32_t tail = -1;  ///< the same of its last block; head, if that is the first one
};

/// What a rank has of a block that a cut goes through.
struct StateFragment {
  std::int64_t local_begin = 0;
  std::int64_t numel = 0;  ///< 1 to 128
  std::int64_t tensor = 0;
  std::int64_t scale = 0;     ///< of its block, among those of the rank
  std::int64_t word = 0;      ///< of its block, among those that are joined
  std::int64_t waits_at = 0;  ///< its first element, among those of all fragments
};

/// Buffers of a rule besides the master.
inline constexpr int most_stored_buffers = 3;

/// Device pointers besides those of StepMemory.
struct StoredMemory {
  const StoredPiece* pieces = nullptr;       // [num_pieces]
  const StateFragment* fragments = nullptr;  // [num_fragments]
  void* master = nullptr;                    // [shard_numel] fp32, or bf16
  bool master_is_bf16 = false;
  StoredBuffer buffers[most_stored_buffers] = {};  // in the order of R6
  std::int64_t num_pieces = 0;
  std::int64_t num_fragments = 0;
};

/// update of every piece whose tensor has a gradient, by the rule (R6). A bf16 master is rounded with the counts that
/// decide(count) left, which therefore comes before.
void enqueue_stored_update(const StepMemory& memory, const StoredMemory& stored,
                           const StepRules& rules);

/// What enqueue_fused_update does, of stored state. Errors: as there.
void enqueue_stored_fused_update(const StepMemory& memory, const StoredMemory& stored,
                                 const StepRules& rules);

/// Scales and codes of the fragments, of the collected magnitudes. Changes nothing in a skipped step, after a halt, and
/// of tensors without a gradient.
void enqueue_store_fragments(const StepMemory& memory, const StoredMemory& stored);

/// Values of one piece that were loaded, [numel] each in device memory; null for a buffer that is not there.
struct LoadedValues {
  const float* master = nullptr;
  const float* buffers[most_stored_buffers] = {};
  bool are_codes[most_stored_buffers] = {};  ///< widened; their scales are there already
};

/// Stores them, as an update does. piece: its number. The master is rounded with the counts that are there.
void enqueue_store_loaded(const StepMemory& memory, const StoredMemory& stored,
                          const StepRules& rules, std::int64_t piece, const LoadedValues& values);

/// cast of a bf16 master: param = its bits.
void enqueue_copy_masters(const StepMemory& memory, const StoredMemory& stored);

}  // namespace zeroproof::cuda::device
