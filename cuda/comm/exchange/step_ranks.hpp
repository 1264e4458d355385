#pragma once
// Integers over all ranks of a step: data ranks, instances, TP ranks.

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::cuda {

/// Over the data ranks of all instances.
inline void all_reduce_data(const OptimizerSetup& setup, Span<std::uint64_t> words,
                            IntegerReduce op) {
  setup.comm->all_reduce(words, op);
  if (setup.replicas != nullptr) setup.replicas->all_reduce(words, op);
}

/// Over every rank of the step.
inline void all_reduce_step(const OptimizerSetup& setup, Span<std::uint64_t> words,
                            IntegerReduce op) {
  all_reduce_data(setup, words, op);
  if (setup.tp != nullptr) setup.tp->all_reduce(words, op);
}

/// True if several TP ranks have the whole tensor, and a part of its gradient each.
inline bool tp_replicated(const OptimizerSetup& setup, std::int64_t tensor) {
  return setup.tp != nullptr && setup.tp->world_size() > 1 && setup.placement[tensor].tp_replicated;
}

}  // namespace zeroproof::cuda
