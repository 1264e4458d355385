// Scalars of a step that are read too early, or with the wrong index.

#include <vector>

#include "cuda/comm/memory/space_array.hpp"
#include "verification/faults/device/wrong_step.hpp"

namespace zeroproof::verification {
namespace {

using cuda::DeviceStep;
using cuda::SpaceArray;
using cuda::device::StepPiece;

/// Norm and coefficient are computed before the sums of the other ranks are added.
class ClipTooEarly final : public DeviceStep {
 public:
  using DeviceStep::DeviceStep;

 private:
  void enqueue_find() const override {
    DeviceStep::enqueue_find();
    if (!alone()) decide(cuda::device::decide_norm | cuda::device::decide_clip);
  }
  void enqueue_update() const override {
    if (alone()) return DeviceStep::enqueue_update();
    constexpr std::uint32_t rest =
        cuda::device::decide_scaler | cuda::device::decide_norm | cuda::device::decide_count;
    cuda::device::enqueue_decide(memory_, rules_, rest, true);
    cuda::device::enqueue_fused_update(memory_, rules_);
  }
};

/// The update takes the scalars, or the clip coefficient, of the first group for all tensors.
template <std::int64_t StepPiece::*group>
class FirstGroupForAll final : public DeviceStep {
 public:
  FirstGroupForAll(cuda::RankShard& shard, const cuda::CommGroups& transport, bool fused)
      : DeviceStep(shard, transport, fused), wrong_pieces_(cuda::device_space(), pieces_.count()) {
    std::vector<StepPiece> pieces(pieces_.count());
    pieces_.read(pieces);
    for (StepPiece& piece : pieces) piece.*group = 0;
    wrong_pieces_.write(pieces);
  }

 private:
  void enqueue_update() const override {
    constexpr std::uint32_t rest = cuda::device::decide_scaler | cuda::device::decide_norm |
                                   cuda::device::decide_clip | cuda::device::decide_count;
    cuda::device::enqueue_decide(memory_, rules_,
                                 alone() ? rest | cuda::device::decide_scalars : rest, !alone());
    cuda::device::StepMemory wrong = memory_;
    wrong.pieces = wrong_pieces_.data();
    cuda::device::enqueue_fused_update(wrong, rules_);
  }

  SpaceArray<StepPiece> wrong_pieces_;
};

}  // namespace

MakeDeviceStep wrong_numbers(std::string_view fault, const FaultContext& context) {
  constexpr DeviceStepRow rows[] = {
      {"clip-before-integers", device_step_of<ClipTooEarly>},
      {"update-reads-first-group", device_step_of<FirstGroupForAll<&StepPiece::group>>},
      {"update-reads-first-clip-group", device_step_of<FirstGroupForAll<&StepPiece::clip_group>>}};
  return step_in(rows, fault, context);
}

}  // namespace zeroproof::verification
