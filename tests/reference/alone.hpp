#pragma once
// One rank of the sharded reference without other ranks, its setup and its buffers by id.

#include <memory>

#include "tests/reference/zero/reference_world.hpp"

namespace zeroproof::tests {

/// A buffer by its id, as storage() lists it.
inline ExposedBuffer stored(DistributedOptimizer& optimizer, BufferId id) {
  for (const ExposedBuffer& buffer : optimizer.storage()) {
    if (buffer.id == id) return buffer;
  }
  return {id, {nullptr, DType::fp32, -1}, {}};
}

inline bool has(DistributedOptimizer& optimizer, BufferId id) {
  return stored(optimizer, id).view.numel >= 0;
}

struct Alone {
  explicit Alone(int stage)
      : layout(odd_layout()),
        shards(layout.padded_numel(), 1, 2048),
        comm(make_self_communicator()),
        initial(layout, lively_scaler()),
        leaves(RankModel(odd_tensors()), {}) {
    setup.layout = &layout;
    setup.shards = &shards;
    setup.comm = comm.get();
    setup.stage = stage;
    setup.hyper.max_norm = 2.0;
    setup.scaler = lively_scaler();
    leaves.log2_scale = 3;
  }

  void make() {
    optimizer = reference::make_distributed_optimizer(setup);
    optimizer->load_state(initial.view());
  }
  void run(Phase phase) { optimizer->run_phase(phase, leaves); }
  void run_up_to(Phase last) {
    for (const Phase phase : all_phases) {
      if (phase <= last) run(phase);
    }
  }
  TensorView view(BufferId id) { return stored(*optimizer, id).view; }
  float value(BufferId id) { return read<float>(view(id)); }

  FlatLayout layout;
  ShardMap shards;
  std::unique_ptr<Communicator> comm;
  InitialState initial;
  NumberedGrads leaves;
  OptimizerSetup setup;
  std::unique_ptr<DistributedOptimizer> optimizer;
};

}  // namespace zeroproof::tests
