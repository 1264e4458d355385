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

/// Ranges of a step that are identical in every step, each as a graph. The first time a range runs
/// directly, so that growing memory has its final size; the second time it is captured, and from
/// then on replayed.
class StepGraphs {
 public:
  /// graphs: false always runs everything directly. comm_groups: captured ranges may contain their
  /// calls; they must outlive this.
  StepGraphs(bool graphs, const CommGroups& comm_groups) : graphs_(graphs) {
    for (Communicator* const wire : {comm_groups.comm, comm_groups.replicas, comm_groups.tp}) {
      if (auto* const watched = dynamic_cast<WatchedCommunicator*>(wire))
        comm_groups_.push_back(watched);
    }
  }

  /// Starts a new step. addresses: of all memory that ranges use. If one of them changed, all
  /// ranges are captured again: a graph contains the addresses of its capture.
  void begin(const std::vector<const void*>& addresses) {
    next_ = 0;
    if (addresses == addresses_) return;
    stretches_.clear();
    addresses_ = addresses;
  }

  /// The next range of the step: always the same ones in the same order.
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

  /// After a state was loaded: drops all captures.
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
