#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "common/comm/collective_call.hpp"
#include "cuda/comm/exchange/comm_groups.hpp"
#include "cuda/comm/nccl_watch.hpp"
#include "cuda/device/runtime/graph.hpp"

namespace zeroproof::cuda {

/// Stretches of a step that are the same in every step, each as a graph. The first time a stretch is done as it is, so
/// that memory that grows has grown; the second time it is captured, and from then on replayed.
class StepGraphs {
 public:
  /// graphs: false does everything as it is, always. comm_groups: whose calls the captured ranges may contain; they outlive this.
  StepGraphs(bool graphs, const CommGroups& comm_groups) : graphs_(graphs) {
    for (Communicator* const wire : {comm_groups.comm, comm_groups.replicas, comm_groups.tp}) {
      if (auto* const watched = dynamic_cast<WatchedCommunicator*>(wire))
        comm_groups_.push_back(watched);
    }
  }

  /// A new step. addresses: of everything that stretches work on. If one of them is not what it was, all stretches are
  /// captured anew: a graph keeps the addresses of its capture.
  void begin(const std::vector<const void*>& addresses) {
    next_ = 0;
    if (addresses == addresses_) return;
    stretches_.clear();
    addresses_ = addresses;
  }

  /// The next stretch of the step: always the same ones in the same order.
  void run(const std::function<void()>& stretch) {
    if (!graphs_) return stretch();
    if (next_ == stretches_.size()) stretches_.emplace_back();
    Stretch& mine = stretches_[next_++];
    if (!mine.done_once) {
      stretch();
      mine.done_once = true;
      return;
    }
    if (!mine.graph) {
      mine.graph.emplace(stretch);
      for (WatchedCommunicator* const wire : comm_groups_)
        mine.calls.push_back(wire->take_captured());
    }
    for (std::size_t i = 0; i < comm_groups_.size(); ++i)
      comm_groups_[i]->begin_replay(mine.calls[i]);
    mine.graph->launch();
    for (WatchedCommunicator* const wire : comm_groups_) wire->end_replay();
  }

  /// State was loaded: whatever is captured is forgotten.
  void clear() { stretches_.clear(); }

 private:
  struct Stretch {
    bool done_once = false;
    std::optional<device::Graph> graph;
    std::vector<std::vector<CollectiveCall>> calls;  ///< of each of comm_groups_ in the graph
  };

  const bool graphs_;
  std::vector<WatchedCommunicator*> comm_groups_;
  std::vector<const void*> addresses_;
  std::vector<Stretch> stretches_;
  std::size_t next_ = 0;
};

}  // namespace zeroproof::cuda
