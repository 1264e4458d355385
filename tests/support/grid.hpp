#pragma once
// Process grids of threads.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "common/comm/threads.hpp"
#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::tests {

struct Grid {
  int instances = 1;
  int ranks = 1;  ///< of one instance, for one TP rank
  int tp = 1;
  int cp = 1;

  int size() const { return instances * ranks * tp; }
};

inline std::string to_string(const Grid& grid) {
  return "instances " + std::to_string(grid.instances) + ", ranks " + std::to_string(grid.ranks) +
         ", tp " + std::to_string(grid.tp) + ", cp " + std::to_string(grid.cp);
}

/// Position of one thread; groups of one instance or TP rank are null.
struct GridPlace {
  int instance = 0;
  int rank = 0;
  int tp_rank = 0;
  int cp_rank = 0;
  int number = 0;  ///< among all threads: data rank * TP ranks + TP rank
  Communicator* all = nullptr;
  Communicator* comm = nullptr;
  Communicator* replicas = nullptr;
  Communicator* tp = nullptr;

  void into(OptimizerSetup& setup) const {
    setup.comm = comm;
    setup.replicas = replicas;
    setup.tp = tp;
  }
};

/// Calls work() on every rank of the grid. The time limit is short, so that a failed rank does not
/// delay the others.
inline void run_grid(const Grid& grid, const std::function<void(const GridPlace&)>& work) {
  ThreadWorld world(grid.size(), std::chrono::milliseconds{20'000});
  run_ranks(world, [&](Communicator& all) {
    const int data_rank = all.rank() / grid.tp;
    GridPlace place;
    place.instance = data_rank / grid.ranks;
    place.rank = data_rank % grid.ranks;
    place.tp_rank = all.rank() % grid.tp;
    place.cp_rank = data_rank % grid.cp;
    place.number = all.rank();
    const auto comm = all.split(place.instance * grid.tp + place.tp_rank);
    const auto replicas = all.split(place.rank * grid.tp + place.tp_rank);
    const auto tp = all.split(data_rank);
    place.all = &all;
    place.comm = comm.get();
    if (grid.instances > 1) place.replicas = replicas.get();
    if (grid.tp > 1) place.tp = tp.get();
    work(place);
  });
}

}  // namespace zeroproof::tests
