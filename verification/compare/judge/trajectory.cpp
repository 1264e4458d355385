#include "verification/compare/judge/trajectory.hpp"

#include <limits>

#include "verification/cli/program/contract_version.hpp"

namespace zeroproof::verification {

TrajectoryHash::TrajectoryHash(GradSum grad_sum) {
  hasher_.add(std::uint64_t{contract_version});
  if (grad_sum == GradSum::binned) hasher_.add(std::uint64_t{0x62696E6E6564});  // "binned"
}

void TrajectoryHash::add_step(const Scalars& s, const FlatLayout& layout,
                              const std::vector<Buffer>& buffers, const TrajectoryScales& scales) {
  hasher_.add(static_cast<std::uint64_t>(s.step));
  hasher_.add(s.step_scalars);
  hasher_.add(static_cast<std::uint64_t>(static_cast<std::int64_t>(s.log2_loss_scale)));
  hasher_.add(std::uint64_t{s.found_inf ? 1U : 0U});
  for (std::int64_t group = 0; group < s.grad_norm.numel; ++group) {
    const double norm = static_cast<const double*>(s.grad_norm.data)[group];
    hasher_.add(s.skipped ? std::numeric_limits<double>::quiet_NaN() : norm);
    float coef = s.skipped ? std::numeric_limits<float>::quiet_NaN()
                           : static_cast<const float*>(s.clip_coef.data)[group];
    hasher_.add(TensorView{&coef, DType::fp32, 1});
  }
  if (s.tensor_steps.numel > 0) hasher_.add(s.tensor_steps);
  std::int64_t tensor = 0;
  for (const TensorSlot& slot : layout.tensors()) {
    for (const Buffer& buffer : buffers) {
      const TensorView& view = buffer.view;
      const std::int64_t begin = slot.begin / buffer.block_numel;
      const std::int64_t count = (slot.numel + buffer.block_numel - 1) / buffer.block_numel;
      hasher_.add(TensorView{static_cast<std::byte*>(view.data) + begin * num_bytes(view.dtype),
                             view.dtype, count});
    }
    if (scales.blocks != nullptr) add_scales(scales, tensor);
    ++tensor;
  }
}

void TrajectoryHash::add_scales(const TrajectoryScales& scales, std::int64_t tensor) {
  const std::int64_t first = scales.blocks->first_block(tensor);
  const std::int64_t count = scales.blocks->grid(tensor).num_blocks();
  const std::int64_t all = scales.blocks->num_blocks();
  for (const TensorView& view : {scales.param_scale, scales.amax_history}) {
    const std::int64_t each = all == 0 ? 0 : view.numel / all;
    hasher_.add(
        TensorView{static_cast<std::byte*>(view.data) + first * each * num_bytes(view.dtype),
                   view.dtype, count * each});
  }
}

}  // namespace zeroproof::verification
