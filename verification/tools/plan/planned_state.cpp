#include "verification/tools/plan/planned_state.hpp"

#include <algorithm>

#include "common/layout/tp_cut.hpp"
#include "common/step/state_format.hpp"
#include "verification/tools/plan/predict/offload_bytes.hpp"
#include "verification/tools/plan/predict/state_blocks.hpp"

namespace zeroproof::verification {
namespace {

/// Every rank's part of every bucket, in increasing order.
std::vector<FlatRange> all_slices(const PredictedStep& run, std::int64_t bucket_numel) {
  if (run.stage == 0 || run.world_size == 1) return {{0, run.padded_numel}};
  std::vector<FlatRange> slices;
  for (std::int64_t begin = 0; begin < run.padded_numel; begin += bucket_numel) {
    const FlatRange bucket{begin, std::min(begin + bucket_numel, run.padded_numel)};
    const auto owners = std::min<std::int64_t>(bucket.numel() / layout_alignment, run.world_size);
    for (std::int64_t owner = 0; owner < owners;
         ++owner)  // more ranks than chunks: some own nothing
      slices.push_back(contract_slice(bucket, static_cast<int>(owners), static_cast<int>(owner)));
  }
  return slices;
}

}  // namespace

PlannedState::PlannedState(const PlanSettings& settings, const PlannedModel& model,
                           const FlatLayout& layout)
    : settings_(settings),
      layout_(layout),
      placements_(static_cast<std::size_t>(settings.grid.tp)) {
  if (settings.grid.tp == 1) return;
  const std::vector<ParamSpec> undistributed = tp_shapes(model, 1);
  std::vector<int> cuts;
  for (const PlannedTensor& tensor : model.tensors) cuts.push_back(tensor.tp_cut);
  for (int rank = 0; rank < settings.grid.tp; ++rank) {
    placements_[rank] = make_tp_model(undistributed, cuts, settings.grid.tp, rank).placement;
  }
}

/// The contract's slices are split at multiples of 1024 of a rank's numbering: at blocks, if its
/// parts are.
bool PlannedState::cuts_no_block() const {
  const auto at_blocks = [](std::int64_t index) { return index % state_block_numel == 0; };
  return std::ranges::all_of(placements_, [&](const std::vector<TensorPlacement>& placement) {
    return std::ranges::all_of(placement, [&](const TensorPlacement& place) {
      return place.tp_replicated ||
             (at_blocks(place.begin) && at_blocks(place.row_numel) && at_blocks(place.row_stride));
    });
  });
}

void PlannedState::set_blocks(PredictedStep& run) const {
  if (run.scaled_buffers() == 0) return;
  const std::vector<FlatRange> ranges = contract_ranges(run, settings_.bucket_numel);
  run.state_blocks = 0;
  for (const std::vector<TensorPlacement>& placement : placements_)
    run.state_blocks = std::max(run.state_blocks, count_blocks({layout_, placement}, ranges));
}

void PlannedState::set_cut_blocks(PredictedStep& run) const {
  if (run.scaled_buffers() == 0 || cuts_no_block()) return;
  const std::vector<FlatRange> slices = all_slices(run, settings_.bucket_numel);
  std::vector<std::int64_t> cut;
  for (const std::vector<TensorPlacement>& placement : placements_)
    add_cut_blocks({layout_, placement}, slices, cut);
  std::ranges::sort(cut);
  run.cut_blocks = std::unique(cut.begin(), cut.end()) - cut.begin();
}

}  // namespace zeroproof::verification
