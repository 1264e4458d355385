#include "cuda/optimizer/state/rule_state.hpp"

#include <algorithm>
#include <utility>

#include "common/base/error.hpp"
#include "common/step/state_buffers.hpp"

namespace zeroproof::cuda {

ScaledStateBlocks::ScaledStateBlocks(std::vector<FlatRange> ranges) : ranges_(std::move(ranges)) {
  for (const FlatRange& range : ranges_) {
    before_.push_back(count_);
    count_ += range.numel();
  }
}

std::int64_t ScaledStateBlocks::place(std::int64_t block) const {
  const auto range = std::ranges::upper_bound(ranges_, block, {}, &FlatRange::end);
  ZP_CHECK(range != ranges_.end() && range->begin <= block, ErrorCode::internal,
           "a rank has no scale of a block of state", "it has elements of that block",
           "report this as a defect");
  return before_[range - ranges_.begin()] + block - range->begin;
}

RuleState::RuleState(const OptimizerHyper& hyper, const StateFormats& formats,
                     std::int64_t shard_numel, std::vector<FlatRange> blocks, MemoryLedger& ledger)
    : formats_(formats), blocks_(std::move(blocks)) {
  for (const StateSlot slot : all_state_slots) {
    kept_[slot] = keeps(hyper, slot);
    buffers_[slot] = CountedBuffer(ledger, MemoryClass::state, kept_[slot] ? shard_numel : 0,
                                   dtype_of(format(slot)));
    const bool scaled = kept_[slot] && has_scales(format(slot));
    scales_[slot] =
        CountedBuffer(ledger, MemoryClass::state, scaled ? blocks_.count() : 0, DType::fp32);
  }
}

std::vector<ExposedBuffer> RuleState::exposed(const std::vector<FlatRange>& ranges) const {
  std::vector<ExposedBuffer> buffers;
  for (const StateSlot slot : all_state_slots) {
    if (kept_[slot]) buffers.push_back({buffer_of(slot), buffers_[slot]->view(), ranges});
  }
  for (const StateSlot slot : all_state_slots) {
    const bool scaled = kept_[slot] && has_scales(format(slot));
    if (scaled) buffers.push_back({scales_of(slot), scales_[slot]->view(), blocks_.ranges()});
  }
  return buffers;
}

void RuleState::update(const KernelTable& ops, const Exec& exec, const OptimizerHyper& hyper,
                       const StepScalars& scalars, const Piece& piece, Span<const float> grad,
                       Span<float> master) const {
  update_by_rule(ops, exec, hyper, scalars, grad, fused(piece, master));
}

}  // namespace zeroproof::cuda
