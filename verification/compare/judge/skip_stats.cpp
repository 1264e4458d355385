#include "verification/compare/judge/skip_stats.hpp"

#include <algorithm>

#include "cuda/device/grad_stats.hpp"
#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/compare/compare.hpp"
#include "verification/ops/on_device.hpp"

namespace zeroproof::verification {
namespace {

std::vector<GradSegment> segments_of(const std::vector<Piece>& pieces) {
  std::vector<GradSegment> segments;
  for (const Piece& piece : pieces)
    segments.push_back({piece.local_begin, piece.numel, piece.tensor});
  return segments;
}

std::vector<float> copied(const TensorView& view) {
  const auto* values = static_cast<const float*>(view.data);
  return {values, values + view.numel};
}

std::string text(const GradStats& stats) {
  return "amax " + show_bits(DType::fp32, stats.amax) + ", " + std::to_string(stats.num_nonfinite) +
         " not finite, " + std::to_string(stats.num_zeros) + " zero";
}

}  // namespace

GradStatsFn* grad_stats_of(const Implementation& implementation) {
  return implementation.space == Space::device ? on_device<cuda::device::grad_stats>
                                               : cuda::host::grad_stats;
}

SkipStats::SkipStats(const Experiment& experiment, const CaseSpec& spec, const CaseLayout& layout,
                     Communicator& harness, const Exec& exec, GradStatsFn* candidate)
    : experiment_(experiment),
      layout_(layout),
      harness_(harness),
      exec_(exec),
      candidate_(candidate),
      stage_(spec.stage),
      bounded_(spec.place.grad_sum == GradSum::native) {}

void SkipStats::keep(const ExposedBuffer& reference, const ExposedBuffer& candidate) {
  const RankCoords place = layout_.place(harness_.rank());
  segments_ = segments_of(layout_.local(place.tp_rank).layout.pieces(reference.ranges));
  reference_grad_ = copied(reference.view);
  candidate_grad_ = copied(candidate.view);
}

SkipStats::Comparison SkipStats::compare(std::int64_t step,
                                         const reference::DenseOptimizer* truth) {
  const Stats ours = here(reference::grad_stats, {}, reference_grad_);
  const Stats want = bounded_ ? here(reference::grad_stats, {}, candidate_grad_) : ours;
  const Stats got = here(candidate_, exec_, candidate_grad_);
  Comparison found;
  found.difference = first_difference(want, got, "differs from the reference");

  const FlatLayout& whole = experiment_.layout();
  const Stats all = over_ranks(ours);
  if (truth != nullptr && !found.difference) {
    Stats undistributed(whole.tensors().size());
    reference::grad_stats({}, truth->last_step().grad_sum,
                          segments_of(whole.pieces({{0, whole.padded_numel()}})), undistributed);
    found.difference = first_difference(
        undistributed, all,
        "of the reference, over all ranks, differs from the undistributed optimizer");
  }
  found.skip.step = step;
  found.skip.num_tensors = std::ssize(all);
  for (std::size_t t = 0; t < all.size(); ++t) {
    found.skip.amax = std::max(found.skip.amax, all[t].amax);
    const TensorSlot& tensor = whole.tensors()[t];
    if (all[t].num_nonfinite > 0)
      found.skip.nonfinite.push_back({tensor.name, tensor.numel, all[t]});
  }
  return found;
}

SkipStats::Stats SkipStats::here(GradStatsFn* implementation, const Exec& exec,
                                 const std::vector<float>& grad) const {
  Stats stats(experiment_.layout().tensors().size());
  implementation(exec, grad, segments_, stats);
  return stats;
}

bool SkipStats::counts(std::int64_t tensor) const {
  const RankCoords place = layout_.place(harness_.rank());
  if (place.instance > 0 || (stage_ == 0 && place.shard_rank > 0)) return false;
  const std::vector<TensorPlacement>& placement = layout_.local(place.tp_rank).placement;
  return place.tp_rank == 0 || !placement[tensor].tp_replicated;
}

SkipStats::Stats SkipStats::over_ranks(Stats mine) {
  std::vector<std::uint64_t> largest, sums;
  for (std::size_t t = 0; t < mine.size(); ++t) {
    if (!counts(static_cast<std::int64_t>(t))) mine[t] = {};
    largest.push_back(mine[t].amax);
    sums.insert(sums.end(), {mine[t].num_nonfinite, mine[t].num_zeros});
  }
  harness_.all_reduce(largest, IntegerReduce::max);
  harness_.all_reduce(sums, IntegerReduce::sum);
  for (std::size_t t = 0; t < mine.size(); ++t) {
    mine[t] = {static_cast<std::uint32_t>(largest[t]), sums[2 * t], sums[2 * t + 1]};
  }
  return mine;
}

std::optional<SkipStats::Difference> SkipStats::first_difference(const Stats& want,
                                                                 const Stats& got,
                                                                 const std::string& what) const {
  for (std::size_t t = 0; t < want.size(); ++t) {
    if (want[t] == got[t]) continue;
    return Difference{experiment_.layout().tensors()[t].name, what, text(want[t]), text(got[t])};
  }
  return {};
}

}  // namespace zeroproof::verification
