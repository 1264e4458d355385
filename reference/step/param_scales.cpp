#include "reference/param_scales.hpp"

#include <algorithm>
#include <utility>

#include "reference/formats/block_scaled.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

std::size_t index(std::int64_t value) { return static_cast<std::size_t>(value); }

std::uint8_t* code_at(const TensorView& codes, std::int64_t local) {
  return static_cast<std::uint8_t*>(codes.data) + local;  // e4m3 and e5m2 are a byte
}

}  // namespace

ParamScales::ParamScales(const StepSettings& settings, TensorBlocks blocks)
    : exist_(true),
      dtype_(settings.param_dtype),
      scaling_(settings.scaling),
      blocks_(std::move(blocks)) {
  const std::size_t count = index(blocks_.num_blocks());
  amax.resize(count);
  amax_history.resize(keeps_history(scaling_) ? count * index(scaling_.history) : 0);
  scale.resize(count);
  scale_inv.resize(count);
  begin();
}

void ParamScales::load(const FullState& state) {
  std::ranges::fill(amax, 0U);
  std::copy_n(state.amax_history.begin(), amax_history.size(), amax_history.begin());
  std::ranges::copy(state.param_scale, scale.begin());
  std::ranges::transform(scale, scale_inv.begin(), [](float s) { return 1 / s; });
}

void ParamScales::begin() {
  std::ranges::fill(amax, 0U);
  std::ranges::fill(amax_history, 0U);
  std::ranges::fill(scale, 1.0F);
  std::ranges::fill(scale_inv, 1.0F);
}

Span<std::uint32_t> ParamScales::history_of(std::size_t first, std::size_t count) {
  const std::size_t slots = index(scaling_.history);
  return Span<std::uint32_t>(amax_history).subspan(first * slots, count * slots);
}

void ParamScales::move_histories(const TakesPart& takes_part) {
  if (!keeps_history(scaling_)) return;
  for (std::int64_t tensor = 0; tensor < blocks_.num_tensors(); ++tensor) {
    if (!takes_part(tensor)) continue;
    const std::size_t first = index(blocks_.first_block(tensor));
    const std::size_t count = index(blocks_.grid(tensor).num_blocks());
    delayed_scales({}, delayed_of(scaling_, dtype_), history_of(first, count),
                   Span<float>(scale).subspan(first, count),
                   Span<float>(scale_inv).subspan(first, count));
  }
}

void ParamScales::collect(Span<const float> master, const std::vector<Piece>& pieces,
                          const TakesPart& takes_part) {
  std::ranges::fill(amax, 0U);
  for (const BlockRun& run : blocks_.runs(pieces)) {
    if (!takes_part(run.tensor)) continue;
    const BlockGrid& grid = blocks_.grid(run.tensor);
    block_amax({}, grid, scaling_.value, run.first,
               master.subspan(index(run.local_begin), index(run.numel)),
               Span<std::uint32_t>(amax).subspan(index(blocks_.first_block(run.tensor)),
                                                 index(grid.num_blocks())));
  }
}

void ParamScales::make_tensor(std::size_t first, std::size_t count) {
  if (keeps_history(scaling_)) {
    for (std::size_t block = first; block < first + count; ++block)
      history_of(block, 1)[0] = amax[block];
  } else {
    const BlockRecipe recipe = {scaling_.recipe == ScaleRecipe::mxfp8,
                                current_of(scaling_, dtype_)};
    const auto begin = amax.begin() + static_cast<std::ptrdiff_t>(first);
    const BlockScales made =
        block_scales(recipe, {begin, begin + static_cast<std::ptrdiff_t>(count)});
    std::ranges::copy(made.scale, scale.begin() + static_cast<std::ptrdiff_t>(first));
  }
  for (std::size_t block = first; block < first + count; ++block)
    scale_inv[block] = 1 / scale[block];
}

void ParamScales::make(const TakesPart& takes_part) {
  for (std::int64_t tensor = 0; tensor < blocks_.num_tensors(); ++tensor) {
    if (takes_part(tensor))
      make_tensor(index(blocks_.first_block(tensor)), index(blocks_.grid(tensor).num_blocks()));
  }
}

void ParamScales::cast(Span<const float> master, const std::vector<Piece>& pieces,
                       const TakesPart& takes_part, const TensorView& codes) const {
  for (const BlockRun& run : blocks_.runs(pieces)) {
    if (!takes_part(run.tensor)) continue;
    const BlockGrid& grid = blocks_.grid(run.tensor);
    const BlockQuantization options = {grid, scaling_.value, Overflow::saturate};
    const std::vector<std::uint8_t> made =
        quantized_part(options, fp8_of(dtype_), run.first,
                       master.subspan(index(run.local_begin), index(run.numel)),
                       Span<const float>(scale).subspan(index(blocks_.first_block(run.tensor)),
                                                        index(grid.num_blocks())));
    std::ranges::copy(made, code_at(codes, run.local_begin));
  }
}

void ParamScales::dequantize(const TensorView& codes, const std::vector<Piece>& pieces,
                             Span<float> values) const {
  for (const BlockRun& run : blocks_.runs(pieces)) {
    const BlockGrid& grid = blocks_.grid(run.tensor);
    const Span<const float> inverses = Span<const float>(scale_inv).subspan(
        index(blocks_.first_block(run.tensor)), index(grid.num_blocks()));
    const Span<float> target = values.subspan(index(run.local_begin), index(run.numel));
    const std::uint8_t* const source = code_at(codes, run.local_begin);
    if (dtype_ == DType::e4m3) {
      block_dequantize_e4m3({}, grid, run.first,
                            {reinterpret_cast<const e4m3*>(source), target.size()}, inverses,
                            target);
    } else {
      block_dequantize_e5m2({}, grid, run.first,
                            {reinterpret_cast<const e5m2*>(source), target.size()}, inverses,
                            target);
    }
  }
}

void transpose_codes(const FlatLayout& layout, const std::vector<Piece>& pieces,
                     const TensorView& codes, const TensorView& target) {
  const std::vector<TensorMatrix> matrices = matrices_of(layout);
  for (const Piece& piece : pieces) {
    const auto [begin, rows, columns] = matrices[index(piece.tensor)];
    if (piece.numel != rows * columns) continue;
    const std::uint8_t* const source = code_at(codes, piece.local_begin);
    std::uint8_t* const place = code_at(target, piece.local_begin);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) place[c * rows + r] = source[r * columns + c];
    }
  }
}

}  // namespace zeroproof::reference
