#include "verification/tools/plan/predict/memory_model.hpp"

#include "verification/tools/plan/predict/layered_walk.hpp"
#include "verification/tools/plan/predict/leaf_stacks.hpp"
#include "verification/tools/plan/predict/memory_tally.hpp"
#include "verification/tools/plan/predict/predicted_step.hpp"
#include "verification/tools/plan/predict/reduce_memory.hpp"

namespace zeroproof {
namespace {

/// Whole gradients: the rank's own leaf during its reduction; on a device also the permanent copy
/// of a leaf made by the host.
void hold_whole_leaf(const PredictedStep& shape, MemoryTally& tally) {
  const bool copied = !shape.layered() && shape.space == Space::device;
  if ((!shape.layered() && !copied) || own_leaves(shape) == 0) return;
  const std::int64_t bytes = num_bytes(shape.grad_dtype) * shape.padded_numel;
  tally.add(MemoryClass::grad, bytes);
  if (!copied) tally.add(MemoryClass::grad, -bytes);
}

/// All micro-steps are equal, except for ranks that have no leaf in one.
void hold_layers(const PredictedStep& shape, MemoryTally& tally) {
  std::int64_t stays = 0;  // persistent units: as long as the phase
  for (std::size_t u = 0; u < shape.stays.size(); ++u)
    stays += shape.stays[u] ? num_bytes(shape.param_dtype) * shape.units[u].range.numel() : 0;
  tally.add(MemoryClass::param_full, stays);
  const LayeredEvents events{[&](std::int64_t bytes) { tally.add(MemoryClass::param_full, bytes); },
                             [&](std::int64_t bytes) { tally.add(MemoryClass::grad, bytes); },
                             [](std::size_t) {}, [](std::size_t) {}};
  if (own_leaves(shape) > 0) walk_micro_step(shape, true, events);
  if (own_leaves(shape) < shape.micro_steps()) walk_micro_step(shape, false, events);
  tally.add(MemoryClass::param_full, -stays);
}

/// Of every block with a scale: amax, scale and scale_inv, the history, and the amax that ranks
/// join, a word on a device.
std::int64_t scale_bytes(const PredictedStep& shape) {
  const std::int64_t joined = shape.space == Space::device ? 8 : 4;
  return shape.scale_blocks * (3 * 4 + joined + 4 * shape.scale_slots) +
         shape.column_blocks * (3 * 4 + joined);
}

/// The column-wise copy: with codes of its own it is stored and gathered like parameters.
void hold_columns(const PredictedStep& shape, MemoryTally& tally) {
  const std::int64_t param = num_bytes(shape.param_dtype);
  if (shape.column_blocks > 0) {
    tally.add(MemoryClass::param_shard, shape.shares_params() ? 0 : param * shape.kept_numel());
    tally.add(MemoryClass::param_full, param * whole_param_numel(shape));
  } else if (shape.columnwise) {
    tally.add(MemoryClass::param_full,
              param * (shape.stage == 3 ? shape.persistent.all : shape.padded_numel));
  }
}

}  // namespace

MemoryUse predict_memory(const PredictedStep& shape, BytesByClass* at_peak, LeafStacks* stacks) {
  if (stacks == nullptr) {
    LeafStacks own(shape);
    return predict_memory(shape, at_peak, &own);
  }
  MemoryTally tally(at_peak);
  const std::int64_t param = num_bytes(shape.param_dtype);
  tally.add(MemoryClass::grad_sum, 4 * (shape.kept_numel() - shape.offload.grads));
  const std::int64_t resident = shape.kept_numel() - shape.offload.moved;
  tally.add(MemoryClass::master, shape.master_bytes * resident);
  const std::int64_t blocks = shape.state_blocks - shape.offload.blocks;
  tally.add(MemoryClass::state, shape.state_bytes(resident, blocks) + scale_bytes(shape) +
                                    (shape.has_matrices ? 4 * shape.kept_numel() : 0));
  tally.add(MemoryClass::param_shard, shape.shares_params() ? 0 : param * shape.kept_numel());
  tally.add(MemoryClass::param_full, param * whole_param_numel(shape));
  hold_columns(shape, tally);
  const ReduceMemory reduce = reduce_memory(shape, *stacks);
  tally.add(MemoryClass::grad_nodes, reduce.nodes);
  tally.add(MemoryClass::comm_buffer, reduce.messages);
  if (shape.layered() && shape.stage >= 2) {
    hold_layers(shape, tally);
  } else {
    hold_whole_leaf(shape, tally);
  }
  MemoryUse use = tally.use();
  if (!shape.offload.setting.on()) return use;
  use.offloaded_host = offloaded_host_bytes(shape);
  use.offloaded_file = offloaded_file_bytes(shape);
  return use;
}

}  // namespace zeroproof
