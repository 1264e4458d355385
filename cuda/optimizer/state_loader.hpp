#pragma once

#include <cstdint>
#include <functional>

#include "cuda/optimizer/host/split_state_step.hpp"
#include "cuda/optimizer/rank_memory.hpp"
#include "cuda/optimizer/state/local_step.hpp"

namespace zeroproof::cuda {

/// Loads an undistributed state: master and state into the memory of a rank, resident and
/// offloaded, and the counters into its step, which casts the parameters.
class StateLoader {
 public:
  /// offload_step: the step, if something is offloaded, else null.
  StateLoader(const RankLayout& layout, RankMemory& memory, LocalStep& step,
              SplitStateStep* offload_step)
      : layout_(layout), memory_(memory), step_(step), offload_step_(offload_step) {}

  /// Collective over all ranks of the step. Errors: invalid_argument if the state does not cover
  /// the layout or a counter is negative; comm if settings or counters differ between ranks.
  void load(const FullState& state);
  /// The same, read in parts from front to back.
  void load(const StateSource& source);

 private:
  /// The buffers of a state.
  struct Values {
    std::function<bool(BufferId)> has;
    /// Reads elements in the rank's flat numbering, from `begin` on, into memory of that space.
    std::function<void(const MemorySpace& space, BufferId id, std::int64_t begin,
                       Span<float> local)>
        read;
  };

  void load(const Exec& exec, const FullState& counters, const Values& values);
  void load_resident(const Exec& exec, const Values& values);
  void load_offloaded(const Values& values);
  /// State and master that are not stored in fp32.
  void load_stored(const FullState& counters, const Values& values);

  const RankLayout& layout_;
  RankMemory& memory_;
  LocalStep& step_;
  SplitStateStep* const offload_step_;
};

}  // namespace zeroproof::cuda
