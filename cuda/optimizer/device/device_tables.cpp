#include "cuda/optimizer/device/device_tables.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "cuda/comm/exchange/micro_batches.hpp"
#include "cuda/comm/exchange/step_ranks.hpp"
#include "cuda/device/step/piece_numel.hpp"

namespace zeroproof::cuda {
namespace {

/// Position of the elements of a tensor in the undistributed model.
TensorPlacement placement_of(const OptimizerSetup& setup, std::int64_t tensor) {
  const auto at = static_cast<std::size_t>(tensor);
  if (!setup.placement.empty()) return setup.placement[at];
  const TensorSlot& slot = setup.layout->tensors()[at];
  return {true, slot.begin, std::max<std::int64_t>(slot.numel, 1),
          std::max<std::int64_t>(slot.numel, 1)};
}

device::StepPiece step_piece(const OptimizerSetup& setup, const TensorPlacement& place,
                             const Piece& piece) {
  const bool counted = tp_rank(setup) == 0 || !tp_replicated(setup, piece.tensor);
  return {piece.local_begin,
          piece.numel,
          piece.tensor,
          piece.tensor_begin,
          setup.groups.of(piece.tensor),
          counted ? 1 : 0,
          place.begin,
          place.row_numel,
          place.row_stride,
          setup.clip_groups.of(piece.tensor)};
}

/// Parts of one block each.
std::vector<device::StepPiece> cut_pieces(const OptimizerSetup& setup,
                                          const std::vector<Piece>& all) {
  std::int64_t numel = 0;
  for (const Piece& whole : all) numel += whole.numel;
  const std::int64_t most = device::step_piece_numel(numel);
  std::vector<device::StepPiece> pieces;
  for (const Piece& whole : all) {
    const TensorPlacement place = placement_of(setup, whole.tensor);
    for (std::int64_t begin = 0; begin < whole.numel; begin += most) {
      pieces.push_back(step_piece(setup, place, whole.part(begin, most)));
    }
  }
  return pieces;
}

}  // namespace

device::StepPiece step_piece(const OptimizerSetup& setup, const Piece& piece) {
  return step_piece(setup, placement_of(setup, piece.tensor), piece);
}

std::vector<device::StepPiece> step_pieces(const OptimizerSetup& setup,
                                           const std::vector<FlatRange>& ranges) {
  return cut_pieces(setup, setup.layout->pieces(ranges));
}

std::vector<device::StepPiece> resident_step_pieces(const OptimizerSetup& setup,
                                                    const StateSplit* split) {
  if (split == nullptr) return {};
  return cut_pieces(setup, split->resident_pieces());
}

std::vector<device::StepMemory> resident_memory(const device::StepMemory& whole,
                                                const device::StepPiece* pieces,
                                                const OptimizerSetup& setup,
                                                const StateSplit& split) {
  const std::vector<device::StepPiece> table = resident_step_pieces(setup, &split);
  std::vector<device::StepMemory> parts;
  std::size_t next = 0;
  for (const StateSplit::Stretch& stretch : split.stretches()) {
    const std::size_t first = next;
    while (next < table.size() && table[next].local_begin < stretch.local_begin + stretch.numel)
      ++next;
    if (next == first) continue;
    device::StepMemory part = whole;
    const std::int64_t shift = stretch.place - stretch.local_begin;
    if (part.master != nullptr) part.master += shift;
    for (float*& buffer : part.slots) {
      if (buffer != nullptr) buffer += shift;
    }
    part.pieces = pieces + first;
    part.num_pieces = static_cast<std::int64_t>(next - first);
    parts.push_back(part);
  }
  return parts;
}

std::vector<std::uint64_t> counted_bits(const OptimizerSetup& setup) {
  if (tp_rank(setup) == 0) return {};
  const std::size_t count = setup.layout->tensors().size();
  std::vector<std::uint64_t> bits((count + 63) / 64);
  for (std::size_t i = 0; i < count; ++i) {
    const bool counts = !tp_replicated(setup, static_cast<std::int64_t>(i));
    bits[i / 64] |= std::uint64_t{counts} << (i % 64);
  }
  return bits;
}

std::vector<double> group_limits(const OptimizerSetup& setup) {
  std::vector<double> limits;
  if (setup.clip_groups.count() == 1) return limits;
  for (const std::optional<double>& limit : max_norms_of(setup.clip_groups, setup.hyper.max_norm)) {
    limits.push_back(limit.value_or(0.0));
  }
  return limits;
}

}  // namespace zeroproof::cuda
