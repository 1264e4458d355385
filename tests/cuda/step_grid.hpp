#pragma once
// Process grids in one process: the groups of ranks are worlds of their own.

#include "tests/cuda/step_world.hpp"

namespace zeroproof::tests {

/// A grid of instances x ranks of one instance x TP ranks, and its groups.
struct Grid {
  int instances = 1;
  int ranks = 1;
  int tp = 1;
  std::vector<std::unique_ptr<ThreadWorld>> comms = {}, replicas = {}, tps = {};

  int size() const { return instances * ranks * tp; }

  void make_groups() {
    for (int i = 0; i < instances * tp; ++i) comms.push_back(quick_world(ranks));
    for (int i = 0; i < ranks * tp; ++i) replicas.push_back(quick_world(instances));
    for (int i = 0; i < instances * ranks; ++i) tps.push_back(quick_world(tp));
  }
};

struct GridPlace {
  int instance, rank, tp;
  std::unique_ptr<Communicator> comm, replica, tp_comm;

  GridPlace(const Grid& grid, int number)
      : instance(number / (grid.ranks * grid.tp)), rank(number / grid.tp % grid.ranks), tp(number % grid.tp) {
    const auto at = [](int i) { return static_cast<std::size_t>(i); };
    comm = grid.comms[at(instance * grid.tp + tp)]->communicator(rank);
    replica = grid.replicas[at(rank * grid.tp + tp)]->communicator(instance);
    tp_comm = grid.tps[at(instance * grid.ranks + rank)]->communicator(tp);
  }

  /// One instance or one TP rank may also be said by leaving the group out.
  void into(const Grid& grid, OptimizerSetup& setup) const {
    setup.comm = comm.get();
    if (grid.instances > 1) setup.replicas = replica.get();
    if (grid.tp > 1) setup.tp = tp_comm.get();
  }
};

}  // namespace zeroproof::tests
