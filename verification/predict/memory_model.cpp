#include "verification/predict/memory_model.hpp"

#include "verification/predict/layered_walk.hpp"
#include "verification/predict/leaf_stacks.hpp"
#include "verification/predict/memory_tally.hpp"
#include "verification/predict/predicted_step.hpp"
#include "verification/predict/reduce_memory.hpp"

namespace zeroproof {
namespace {

/// A message buffer that lives while one thing is gathered.
void gather_once(const PredictedStep& shape, MemoryTally& tally, const GatherShape& gathered) {
  if (shape.world_size > 1) WireTally(tally).take(num_bytes(shape.param_dtype) * gathered.split);
}

/// A rank's own leaf of whole gradients, while they are reduced.
void reduce_whole_leaves(const PredictedStep& shape, MemoryTally& tally, LeafStacks& stacks) {
  ReduceMemory reduce(shape, tally, stacks);
  const bool leaf = shape.layered() && reduce.computes(0);
  const std::int64_t leaf_bytes = leaf ? num_bytes(shape.grad_dtype) * shape.padded_numel : 0;
  tally.add(MemoryClass::grad, leaf_bytes);
  for (std::int64_t i = 0; i < shape.micro_steps(); ++i) {
    if (reduce.repeats(i)) continue;
    for (std::size_t b = 0; b < shape.buckets.size(); ++b) reduce.one_leaf(b, i);
  }
  reduce.finish();
  tally.add(MemoryClass::grad, -leaf_bytes);
}

void reduce_layers(const PredictedStep& shape, MemoryTally& tally, LeafStacks& stacks) {
  std::int64_t stays = 0;  // persistent units: as long as the phase
  for (std::size_t u = 0; u < shape.stays.size(); ++u)
    stays += shape.stays[u] ? num_bytes(shape.param_dtype) * shape.units[u].range.numel() : 0;
  tally.add(MemoryClass::param_full, stays);
  ReduceMemory reduce(shape, tally, stacks);
  for (std::int64_t i = 0; i < shape.micro_steps(); ++i) {
    if (reduce.repeats(i)) continue;
    const LayeredEvents events{[&](std::int64_t bytes) { tally.add(MemoryClass::param_full, bytes); },
                               [&](std::int64_t bytes) { tally.add(MemoryClass::grad, bytes); },
                               [&](std::size_t unit) { gather_once(shape, tally, shape.units[unit]); },
                               [&](std::size_t bucket) { reduce.one_leaf(bucket, i); }};
    walk_micro_step(shape, reduce.computes(i), events);
  }
  reduce.finish();
  tally.add(MemoryClass::param_full, -stays);
}

}  // namespace

MemoryUse predict_memory(const PredictedStep& shape, BytesByClass* at_peak, LeafStacks* stacks) {
  if (stacks == nullptr) {
    LeafStacks own(shape);
    return predict_memory(shape, at_peak, &own);
  }
  MemoryTally tally(at_peak);
  const std::int64_t param = num_bytes(shape.param_dtype);
  const std::int64_t whole = shape.stage == 3 ? shape.persistent.all : shape.padded_numel;
  tally.add(MemoryClass::grad_sum, 4 * shape.kept_numel());
  tally.add(MemoryClass::master, 4 * shape.kept_numel());
  tally.add(MemoryClass::state, 4 * shape.state_buffers * shape.kept_numel());
  tally.add(MemoryClass::param_shard, param * shape.kept_numel());
  tally.add(MemoryClass::param_full, param * whole);
  if (shape.layered() && shape.stage >= 2) {
    reduce_layers(shape, tally, *stacks);
  } else {
    reduce_whole_leaves(shape, tally, *stacks);
  }
  if (shape.stage == 3) gather_once(shape, tally, shape.persistent);
  if (shape.stage == 1 || shape.stage == 2) {
    WireTally wire(tally);
    for (const BucketShape& bucket : shape.buckets) wire.take(param * bucket.split);
  }
  return tally.use();
}

}  // namespace zeroproof
