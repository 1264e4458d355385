#pragma once
// One rank's step in device memory, in the form of the kernels of cuda/device/step, with one
// tensor.

#include <cstdint>
#include <vector>

#include "common/layout/flat_layout.hpp"
#include "cuda/comm/memory/space_array.hpp"
#include "cuda/device/step/step_passes.hpp"
#include "verification/bench/device/loops.hpp"

namespace zeroproof::verification::bench {

class KernelData {
 public:
  /// numel: a multiple of 1024. num_leaves: bf16 gradients. All buffers are filled on return.
  KernelData(std::int64_t numel, int num_leaves);

  std::int64_t numel() const { return numel_; }
  int num_leaves() const { return static_cast<int>(leaves_.size()); }
  const FlatLayout& layout() const { return layout_; }
  const cuda::device::StepMemory& memory() const { return memory_; }
  const cuda::device::StepRules& rules() const { return rules_; }

  /// Sums and flags of a step, initially zero.
  void clear_found() const;
  cuda::device::StepFound found() const;

  void* grad() const { return grad_.data(); }
  /// 4 bytes per element without another use.
  void* scratch() const { return scratch_.data(); }
  std::uint32_t* sink() const { return sink_.data(); }
  StepAccess access() const;
  /// The first `count` of them.
  std::vector<const std::uint16_t*> leaves(int count) const;

 private:
  void fill();

  const std::int64_t numel_;
  const FlatLayout layout_;
  const cuda::device::StepRules rules_;
  cuda::SpaceArray<cuda::device::StepRecord> record_;
  cuda::SpaceArray<cuda::device::StepInput> input_;
  cuda::SpaceArray<StepScalars> scalars_;
  cuda::SpaceArray<cuda::device::ScheduleRow> schedule_;
  cuda::SpaceArray<cuda::device::StepPiece> pieces_;
  cuda::SpaceArray<float> grad_, master_, exp_avg_, exp_avg_sq_;  // [numel], as all below
  cuda::SpaceArray<std::uint16_t> param_;
  cuda::SpaceArray<std::uint32_t> scratch_;
  std::vector<cuda::SpaceArray<std::uint16_t>> leaves_;
  cuda::SpaceArray<std::uint32_t> sink_;  // [1]
  cuda::device::StepMemory memory_;
};

}  // namespace zeroproof::verification::bench
