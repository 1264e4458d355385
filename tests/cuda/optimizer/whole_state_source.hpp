#pragma once
// A whole state without scales as a source that is read range by range.

#include <algorithm>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "common/step/state_buffers.hpp"
#include "common/step/state_source.hpp"

namespace zeroproof::tests {

class WholeStateSource : public StateSource {
 public:
  explicit WholeStateSource(const FullState& state) : state_(state) {}

  std::int64_t applied_steps() const override { return state_.applied_steps; }
  LossScalerState scaler() const override { return state_.scaler; }
  std::vector<std::uint64_t> tensor_steps() const override { return {}; }
  bool has(BufferId id) const override { return !is_state_scale(id); }
  void read(BufferId id, std::int64_t begin, Span<float> target) const override {
    const Span<const float> whole =
        id == BufferId::master ? state_.master : state_.slots[slot_of(id).value()];
    std::copy_n(whole.begin() + begin, target.size(), target.begin());
  }

 private:
  const FullState state_;
};

}  // namespace zeroproof::tests
