// Skipped steps that are handled wrongly on the device, without the host.

#include "cuda/comm/memory/space_array.hpp"
#include "verification/faults/device/wrong_kernels.hpp"
#include "verification/faults/device/wrong_step.hpp"

namespace zeroproof::verification {
namespace {

using cuda::DeviceStep;
using cuda::SpaceArray;
using cuda::device::StepFound;
using cuda::device::StepMemory;

class WrongSkip : public DeviceStep {
 public:
  using DeviceStep::DeviceStep;

 protected:
  void decide_all() const {
    constexpr std::uint32_t rest = cuda::device::decide_scaler | cuda::device::decide_norm |
                                   cuda::device::decide_clip | cuda::device::decide_count;
    cuda::device::enqueue_decide(memory_, rules_,
                                 alone() ? rest | cuda::device::decide_scalars : rest, !alone());
  }
};

/// Ranks add their flags, and only a sum of 1 counts as an overflow.
class SummedFlags final : public WrongSkip {
  using WrongSkip::WrongSkip;
  void enqueue_integers() const override {
    all_reduce_step(&memory_.found->found_inf, 1, IntegerReduce::sum);
    all_reduce_step(&memory_.found->digest, 2, IntegerReduce::max);
    enqueue_equals_one(&memory_.found->found_inf);
    all_reduce_norm();
  }
};

/// The update does not read the decision.
class UpdatesAnyway final : public WrongSkip {
  using WrongSkip::WrongSkip;
  void enqueue_update() const override {
    decide_all();
    StepMemory changed = memory_;
    changed.found = found_.data();
    cuda::device_space().copy(changed.found, memory_.found, sizeof(StepFound));
    cuda::device_space().fill(&changed.found->skipped, 0, sizeof changed.found->skipped);
    cuda::device::enqueue_fused_update(changed, rules_);
  }

  SpaceArray<StepFound> found_{cuda::device_space(), 1};
};

/// The count uses the flag of the step before.
class CountBehind final : public WrongSkip {
  using WrongSkip::WrongSkip;
  void load(const FullState& state) override {
    before_.write(0);
    DeviceStep::load(state);
  }
  void enqueue_update() const override {
    DeviceStep::enqueue_update();
    enqueue_count_behind(memory_, before_.data());
  }

  SpaceArray<std::uint32_t> before_{cuda::device_space(), 1};
};

/// The number of enqueued steps selects the row of the schedule.
class RowOfEnqueued final : public WrongSkip {
  using WrongSkip::WrongSkip;
  void load(const FullState& state) override {
    next_t_ = state.applied_steps;
    DeviceStep::load(state);
  }
  void enqueue_inputs(GradSource& leaves, std::int64_t seen_t, std::int64_t latest_t,
                      std::int64_t slot) override {
    DeviceStep::enqueue_inputs(leaves, seen_t, latest_t, slot);
    const std::int64_t groups = memory_.num_groups;
    const std::int64_t off = (++next_t_ - latest_t) * groups;
    const std::int64_t num_bytes =
        (num_rows_ * groups - off) * static_cast<std::int64_t>(sizeof(*rows_.data()));
    cuda::device::enqueue_to_device(schedule_.data(), rows_.data() + off, num_bytes);
  }

  std::int64_t next_t_ = 0;
};

}  // namespace

MakeDeviceStep wrong_skip(std::string_view fault, const FaultContext& context) {
  constexpr DeviceStepRow rows[] = {{"flags-added-up", device_step_of<SummedFlags>},
                                    {"update-ignores-skip", device_step_of<UpdatesAnyway>},
                                    {"count-behind-after-skip", device_step_of<CountBehind>},
                                    {"schedule-row-of-enqueued", device_step_of<RowOfEnqueued>}};
  return step_in(rows, fault, context);
}

}  // namespace zeroproof::verification
