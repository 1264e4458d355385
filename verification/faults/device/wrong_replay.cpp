// Graphs that keep values of their capture instead of reading the current ones.

#include <algorithm>
#include <memory>
#include <vector>

#include "cuda/comm/memory/space_array.hpp"
#include "verification/faults/device/wrong_step.hpp"

namespace zeroproof::verification {
namespace {

using cuda::DeviceStep;
using cuda::PinnedArray;
using cuda::SpaceArray;
using cuda::device::ScheduleRow;

/// The host writes a number of the step into one slot per step in flight: a graph copies from the
/// slot of its capture. Steps that are not replayed are correct.
class BroughtByHost : public DeviceStep {
 public:
  using DeviceStep::DeviceStep;

 protected:
  static constexpr std::int64_t slots = cuda::EnqueuedOptimizer::most_enqueued;

  virtual void write(std::int64_t t, std::int64_t slot) = 0;
  virtual void enqueue_slot(std::int64_t slot) const = 0;

 private:
  void enqueue_inputs(GradSource& leaves, std::int64_t seen_t, std::int64_t latest_t,
                      std::int64_t slot) override {
    DeviceStep::enqueue_inputs(leaves, seen_t, latest_t, slot);
    slot_ = slot;
    write(latest_t, slot);
  }
  void enqueue_find() const override {
    enqueue_slot(slot_);
    DeviceStep::enqueue_find();
  }

  std::int64_t slot_ = 0;
};

class FrozenCount final : public BroughtByHost {
  using BroughtByHost::BroughtByHost;
  void write(std::int64_t t, std::int64_t slot) override {
    counts_.data()[slot] = static_cast<std::uint64_t>(t - 1);
  }
  void enqueue_slot(std::int64_t slot) const override {
    cuda::device::enqueue_to_device(&memory_.state->applied_steps, counts_.data() + slot,
                                    sizeof(std::uint64_t));
  }

  PinnedArray<std::uint64_t> counts_{slots};
};

/// lr and weight decay of the captured step in all rows of the next steps.
class FrozenRate final : public BroughtByHost {
 public:
  FrozenRate(cuda::RankShard& shard, const cuda::CommGroups& transport, bool fused)
      : BroughtByHost(shard, transport, fused),
        row_numel_(rows * memory_.num_groups),
        rates_(slots * row_numel_) {}

 private:
  static constexpr std::int64_t rows = 64;  // more than the steps of a case

  void write(std::int64_t t, std::int64_t slot) override {
    const ScheduleRow* const now = rows_.data() + (t - first_row_t_) * memory_.num_groups;
    for (std::int64_t row = 0; row < rows; ++row) {
      std::copy_n(now, memory_.num_groups,
                  rates_.data() + slot * row_numel_ + row * memory_.num_groups);
    }
  }
  void enqueue_slot(std::int64_t slot) const override {
    cuda::device::enqueue_to_device(schedule_.data(), rates_.data() + slot * row_numel_,
                                    row_numel_ * static_cast<std::int64_t>(sizeof(ScheduleRow)));
  }

  const std::int64_t row_numel_;
  PinnedArray<ScheduleRow> rates_;
};

class FrozenBits final : public BroughtByHost {
  using BroughtByHost::BroughtByHost;
  void write(std::int64_t, std::int64_t) override {}  // production has written them into the slots
  void enqueue_slot(std::int64_t slot) const override {
    const std::int64_t count = has_grad_.count();
    cuda::device::enqueue_to_device(has_grad_.data(), grad_bits_.data() + slot * count,
                                    count * static_cast<std::int64_t>(sizeof(std::uint64_t)));
  }
};

/// The schedule moves to other memory after the capture; the graph keeps the old pointer.
class MovedTable final : public DeviceStep {
 public:
  MovedTable(cuda::RankShard& shard, const cuda::CommGroups& transport, bool fused)
      : DeviceStep(shard, transport, fused) {
    move();
  }

 private:
  void move() {
    auto moved = std::make_unique<SpaceArray<ScheduleRow>>(cuda::device_space(), schedule_.count());
    table_.swap(moved);
    memory_.schedule = table_->data();
  }
  void enqueue_inputs(GradSource& leaves, std::int64_t seen_t, std::int64_t latest_t,
                      std::int64_t slot) override {
    DeviceStep::enqueue_inputs(leaves, seen_t, latest_t, slot);
    if (++steps_ == 3) move();
    cuda::device_space().copy(table_->data(), schedule_.data(), rows_.num_bytes());
  }
  std::vector<const void*> addresses() const override {
    return {memory_.grad, memory_.master, memory_.param};
  }

  std::unique_ptr<SpaceArray<ScheduleRow>> table_;
  int steps_ = 0;
};

/// The host fills the schedule table with rows of other steps than those it announces.
class StaleTable : public DeviceStep {
 public:
  using DeviceStep::DeviceStep;

 private:
  /// The first step of the rows, given that of the table before; 0: the right rows.
  virtual std::int64_t first_stale_t(std::int64_t before) const = 0;

  void enqueue_inputs(GradSource& leaves, std::int64_t seen_t, std::int64_t latest_t,
                      std::int64_t slot) override {
    const std::int64_t before = first_row_t_;
    DeviceStep::enqueue_inputs(leaves, seen_t, latest_t, slot);
    const std::int64_t first = first_row_t_, divisor = divisor_, stale = first_stale_t(before);
    if (before == first || stale == 0) return;
    enqueue_schedule(stale);
    first_row_t_ = first;
    divisor_ = divisor;
  }
};

class TableOfFirstStep final : public StaleTable {
  using StaleTable::StaleTable;
  std::int64_t first_stale_t(std::int64_t before) const override { return before == 0 ? 1 : 0; }
};

class TableFilledOnce final : public StaleTable {
  using StaleTable::StaleTable;
  std::int64_t first_stale_t(std::int64_t before) const override { return before; }
};

}  // namespace

MakeDeviceStep wrong_replay(std::string_view fault, const FaultContext& context) {
  constexpr DeviceStepRow rows[] = {
      {"t-frozen-at-capture", device_step_of<FrozenCount>},
      {"lr-frozen-at-capture", device_step_of<FrozenRate>},
      {"idle-bits-frozen-at-capture", device_step_of<FrozenBits>},
      {"replayed-over-freed-table", device_step_of<MovedTable>},
      {"resume-keeps-schedule-table", device_step_of<TableOfFirstStep>},
      {"schedule-table-filled-once", device_step_of<TableFilledOnce>}};
  return step_in(rows, fault, context);
}

}  // namespace zeroproof::verification
